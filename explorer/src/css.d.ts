declare module "*.css";
/** Of explorer/build.mjs. */
declare module "code:*" {
  const text: string;
  export default text;
}
