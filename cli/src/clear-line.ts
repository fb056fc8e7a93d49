/** Lets a terminal forget the line that it is in. */
export const CLEAR_LINE = "\r\u001b[K";
