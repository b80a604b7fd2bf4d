/** What is shown where the address names nothing. */

const KINDS = ["gradient", "weight", "activation"];

/** The kind of tensors that says most. @param {string[]} kinds that there are */
export const preferred = (kinds) => KINDS.find((each) => kinds.includes(each)) ?? kinds[0];
