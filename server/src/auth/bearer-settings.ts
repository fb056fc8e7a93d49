import { readFileSync } from "node:fs";
import type { JSONWebKeySet } from "jose";
import {
  type BearerSettings,
  DEFAULT_AUTHORITY,
  type IssuerSettings,
  type StaticToken,
} from "./bearer.ts";
import { SettingsError, type SettingsSection } from "./settings-section.ts";

const READER_ROLES = ["Storage Table Data Reader", "reader"];
const CONTRIBUTOR_ROLES = ["Storage Table Data Contributor", "contributor"];
/** The tolerance that issuers commonly recommend. */
const CLOCK_TOLERANCE_S = 300;

/**
 * Reads the `bearer` object of a configuration file: `issuers` (`issuer`, `jwks`: an HTTPS URL, a
 * file or the key set itself, `audiences`, `rolesClaim`, `readerRoles`, `contributorRoles`),
 * `staticTokens` (`token`, `subject`, `role`), `allowHttp`, `clockToleranceS`, `authorizationUri`,
 * `resourceId`. Key files are read once, here.
 * @throws SettingsError
 */
export function readBearerSettings(settings: SettingsSection): BearerSettings {
  const allowHttp = settings.flag("allowHttp");
  const read: BearerSettings = {
    issuers: settings.sections("issuers").map((issuer) => readIssuer(issuer, allowHttp)),
    staticTokens: settings.sections("staticTokens").map(readStaticToken),
    allowHttp,
    clockToleranceS: settings.optionalNumber("clockToleranceS", 0) ?? CLOCK_TOLERANCE_S,
    authorizationUri:
      settings.optionalText("authorizationUri") ?? DEFAULT_AUTHORITY.authorizationUri,
    resourceId: settings.optionalText("resourceId") ?? DEFAULT_AUTHORITY.resourceId,
  };
  settings.end();
  if (read.issuers.length + read.staticTokens.length === 0) {
    throw new SettingsError(
      `${settings.path} has neither issuers nor staticTokens; at least one of either is required.`,
    );
  }
  return read;
}

function readIssuer(section: SettingsSection, allowHttp: boolean): IssuerSettings {
  const issuer: IssuerSettings = {
    issuer: section.text("issuer"),
    audiences: section.optionalTexts("audiences") ?? [DEFAULT_AUTHORITY.resourceId],
    keys: readKeys(section, allowHttp),
    rolesClaim: section.optionalText("rolesClaim") ?? "roles",
    readerRoles: section.optionalTexts("readerRoles") ?? READER_ROLES,
    contributorRoles: section.optionalTexts("contributorRoles") ?? CONTRIBUTOR_ROLES,
  };
  section.end();
  return issuer;
}

function readKeys(section: SettingsSection, allowHttp: boolean): URL | JSONWebKeySet {
  const value = section.value("jwks");
  const path = `${section.path}.jwks`;
  if (typeof value !== "string") return asKeySet(value, path);
  if (/^https?:\/\//.test(value)) {
    if (!URL.canParse(value)) throw new SettingsError(`${path} is not a valid URL.`);
    const url = new URL(value);
    if (url.protocol === "http:" && !allowHttp) {
      throw new SettingsError(`${path} is an http URL; https is expected unless allowHttp is set.`);
    }
    return url;
  }
  try {
    return asKeySet(JSON.parse(readFileSync(value, "utf8")), path);
  } catch (cause) {
    if (cause instanceof SettingsError) throw cause;
    throw new SettingsError(
      `${path} names the file "${value}", which does not exist or is not JSON.`,
      { cause },
    );
  }
}

function asKeySet(value: unknown, path: string): JSONWebKeySet {
  if (isKeySet(value)) return value;
  throw new SettingsError(
    `${path} is not a key set; a URL, a file name or { "keys": [...] } is expected.`,
  );
}

function isKeySet(value: unknown): value is JSONWebKeySet {
  if (typeof value !== "object" || value === null || !("keys" in value)) return false;
  const { keys } = value;
  return (
    Array.isArray(keys) &&
    keys.every((key) => typeof key === "object" && key !== null && typeof key.kty === "string")
  );
}

function readStaticToken(section: SettingsSection): StaticToken {
  const token = section.text("token");
  const subject = section.optionalText("subject") ?? "static";
  const role = section.text("role");
  section.end();
  if (role !== "reader" && role !== "contributor" && role !== "none") {
    throw new SettingsError(
      `${section.path}.role is "${role}"; reader, contributor or none is expected.`,
    );
  }
  return { token, subject, role };
}
