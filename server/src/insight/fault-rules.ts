import { ERRORS, type ErrorCode, ServiceError } from "@rowhouse/protocol/errors";
import type { Awaitable } from "../awaitable.ts";
import type { Gate, GateFacts } from "../wire/gate.ts";
import { type Metric, single } from "./prometheus.ts";

/** A deliberate fault. */
export interface FaultRule {
  /** The error to refuse requests with; undefined: requests are only delayed. */
  readonly code?: ErrorCode | undefined;
  readonly delayMs?: number | undefined;
  /** Absent: any operation. */
  readonly operation?: string | undefined;
  /** The table, queue or container, in any case; absent: any. */
  readonly resource?: string | undefined;
  /** Share of the requests that are hit, 0 to 1. */
  readonly rate: number;
}

/** The error code that a status alone means. */
const STATUS_CODES: Readonly<Record<string, ErrorCode>> = {
  "403": "AuthorizationFailure",
  "409": "ConditionNotMet",
  "412": "UpdateConditionNotSatisfied",
  "500": "OperationTimedOut",
  "503": "ServerBusy",
};

/**
 * Reads rules such as `503 on InsertEntity of Orders rate 0.1; delay 200 on QueryEntities`:
 *
 *     rules := rule (";" rule)*
 *     rule  := (STATUS | CODE | "delay" MS)+ ["on" OPERATION] ["of" RESOURCE] ["rate" SHARE]
 *
 * @throws Error that quotes the word it does not accept
 */
export function parseFaultRules(text: string): FaultRule[] {
  const rules = text.split(";").filter((rule) => rule.trim() !== "");
  if (rules.length === 0) throw new Error("The fault rules are empty.");
  return rules.map((rule) => parseRule(rule.trim().split(/\s+/)));
}

function parseRule(words: readonly string[]): FaultRule {
  const rule: { -readonly [Name in keyof FaultRule]: FaultRule[Name] } = { rate: 1 };
  for (let i = 0; i < words.length; i++) {
    const word = words[i]!;
    const value = () => {
      const next = words[++i];
      if (next === undefined) throw new Error(`"${word}" in a fault rule needs a value.`);
      return next;
    };
    if (word === "on") rule.operation = value();
    else if (word === "of") rule.resource = value().toLowerCase();
    else if (word === "rate") rule.rate = numberOf(value(), 1);
    else if (word === "delay") rule.delayMs = numberOf(value(), 600_000);
    else rule.code = codeOf(word);
  }
  if (rule.code === undefined && rule.delayMs === undefined) {
    throw new Error(`The fault rule "${words.join(" ")}" neither refuses nor delays.`);
  }
  return rule;
}

function numberOf(text: string, most: number): number {
  const number = Number(text);
  if (number >= 0 && number <= most) return number;
  throw new Error(`"${text}" in a fault rule is not a number from 0 to ${most}.`);
}

function codeOf(word: string): ErrorCode {
  const isCode = (text: string): text is ErrorCode => Object.hasOwn(ERRORS, text);
  const code = STATUS_CODES[word] ?? word;
  if (isCode(code)) return code;
  throw new Error(
    `"${word}" in a fault rule is not an error code; use one from the manual or one of ${Object.keys(STATUS_CODES).join(", ")}.`,
  );
}

export interface FaultSurroundings {
  /** 0 to 1. */
  readonly random: () => number;
  readonly wait: (ms: number) => Promise<void>;
}

const REAL: FaultSurroundings = {
  random: Math.random,
  wait: (ms) => new Promise((resolve) => setTimeout(resolve, ms)),
};

/**
 * Hits requests before their operation runs: a refused write has not happened. Every matching rule is tried
 * in turn; delays add up, and the first refusal decides. A batch passes once as a request of its own, which
 * names no table, and then once for each operation in it: if one is hit, the whole batch is refused.
 */
export class FaultGate implements Gate {
  readonly #rules: readonly FaultRule[];
  readonly #surroundings: FaultSurroundings;
  #struck = 0;

  constructor(rules: readonly FaultRule[], surroundings = REAL) {
    this.#rules = rules;
    this.#surroundings = surroundings;
  }

  metrics(): Metric[] {
    const help = "Requests and batch operations refused or delayed by fault rules.";
    return [single("rowhouse_faults_total", "counter", help, this.#struck)];
  }

  enter({ operation, resource }: GateFacts): Awaitable<void> {
    let delayMs = 0;
    let code: ErrorCode | undefined;
    for (const rule of this.#rules) {
      if (rule.operation !== undefined && rule.operation !== operation) continue;
      if (rule.resource !== undefined && rule.resource !== resource.toLowerCase()) continue;
      if (rule.rate < 1 && this.#surroundings.random() >= rule.rate) continue;
      delayMs += rule.delayMs ?? 0;
      code = rule.code;
      if (code !== undefined) break;
    }
    if (delayMs === 0 && code === undefined) return;
    this.#struck++;
    if (delayMs === 0) return strike(code);
    return this.#surroundings.wait(delayMs).then(() => strike(code));
  }
}

function strike(code: ErrorCode | undefined): void {
  if (code !== undefined) throw new ServiceError(code);
}
