/** Makes a value when it is first asked for, and keeps it; one that could not be made is tried again when next asked for. */
export function madeOnce<Input, Value>(
  make: (input: Input) => Promise<Value>,
): (input: Input) => Promise<Value> {
  let made: Promise<Value> | undefined;
  return (input) => {
    made ??= make(input).catch((error: unknown) => {
      made = undefined;
      throw error;
    });
    return made;
  };
}
