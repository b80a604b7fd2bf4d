/** Default choices, if the address names nothing. */

const KINDS = ["gradient", "weight", "activation"];

/** The most informative kind of tensors. @param {string[]} kinds available kinds */
export const preferred = (kinds) => KINDS.find((each) => kinds.includes(each)) ?? kinds[0];
