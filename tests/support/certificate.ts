import { createHash, generateKeyPairSync, sign } from "node:crypto";

export interface TestCertificate {
  /** PEM. */
  readonly cert: string;
  readonly key: string;
}

/**
 * A self-signed certificate for `localhost` and 127.0.0.1, valid for a day. Written in DER by hand, because
 * Node has no function for it and the tests depend on no other program.
 */
export function selfSignedCertificate(now: Date): TestCertificate {
  const { publicKey, privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const publicKeyInfo = publicKey.export({ type: "spki", format: "der" });
  const name = sequence(set(sequence(OID_COMMON_NAME, der(0x0c, Buffer.from("localhost")))));
  const algorithm = sequence(OID_ECDSA_WITH_SHA256);
  const names = sequence(
    der(0x82, Buffer.from("localhost")),
    der(0x87, Buffer.from([127, 0, 0, 1])),
  );
  const serial = createHash("sha256").update(publicKeyInfo).digest().subarray(0, 8);
  serial[0]! &= 0x7f;
  const body = sequence(
    der(0xa0, der(0x02, Buffer.from([2]))), // Version 3.
    der(0x02, Buffer.from([0x01, ...serial])),
    algorithm,
    name,
    sequence(utcTime(now.getTime() - 3_600_000), utcTime(now.getTime() + 86_400_000)),
    name,
    publicKeyInfo,
    der(0xa3, sequence(sequence(OID_SUBJECT_ALTERNATIVE_NAME, der(0x04, names)))),
  );
  const signature = sign("sha256", body, privateKey);
  const certificate = sequence(
    body,
    algorithm,
    der(0x03, Buffer.concat([Buffer.of(0), signature])),
  );
  return {
    cert: `-----BEGIN CERTIFICATE-----\n${certificate.toString("base64").replace(/.{64}/g, "$&\n")}\n-----END CERTIFICATE-----\n`,
    key: privateKey.export({ type: "pkcs8", format: "pem" }).toString(),
  };
}

const OID_COMMON_NAME = Buffer.from("0603550403", "hex");
const OID_SUBJECT_ALTERNATIVE_NAME = Buffer.from("0603551d11", "hex");
const OID_ECDSA_WITH_SHA256 = Buffer.from("06082a8648ce3d040302", "hex");

function der(tag: number, content: Buffer): Buffer {
  const { length } = content;
  const size =
    length < 128 ? [length] : length < 256 ? [0x81, length] : [0x82, length >> 8, length & 255];
  return Buffer.concat([Buffer.from([tag, ...size]), content]);
}

function sequence(...parts: Buffer[]): Buffer {
  return der(0x30, Buffer.concat(parts));
}

function set(...parts: Buffer[]): Buffer {
  return der(0x31, Buffer.concat(parts));
}

/** `YYMMDDhhmmssZ`, in which two-digit years up to 49 belong to this century. */
function utcTime(milliseconds: number): Buffer {
  const digits = new Date(milliseconds).toISOString().replace(/\D/g, "").slice(2, 14);
  return der(0x17, Buffer.from(`${digits}Z`));
}
