/** Makes a terminal erase its current line. */
export const CLEAR_LINE = "\r\u001b[K";
