/** The number of steps of a run that were watched. @param {{gaps: [number, number][], steps: number}} about */
export const watchedSteps = (about) =>
  about.gaps.reduce((left, [first, last]) => left - (Math.min(last, about.steps - 1) + 1 - first), about.steps);
