import type { EdmType } from "./edm.ts";
import { ServiceError } from "./errors.ts";
import { FilterLexer, type Token } from "./filter-lexer.ts";
import { compareLiterals } from "./filter-literal.ts";
import type { ComparisonOperator, FilterNode, Literal, PropertyNode } from "./filter-tree.ts";
import { LIMITS } from "./limits.ts";

/**
 * Parses a `$filter` over entities. A bare name, and a name in a comparison, may be of any type,
 * except the two keys and Timestamp, whose types are known.
 * Source: "Querying tables and entities".
 * @throws ServiceError InvalidInput; NotImplemented for valid OData that the service does not
 * support.
 */
export function parseFilter(text: string): FilterNode {
  return new FilterParser(text, ENTITY_TYPES).parse();
}

/**
 * Parses a `$filter` of Query Tables, whose only property is `TableName`.
 * @throws ServiceError as `parseFilter`, and InvalidInput for any other property.
 */
export function parseTableFilter(text: string): FilterNode {
  return new FilterParser(text, TABLE_TYPES).parse();
}

interface DeclaredTypes {
  readonly types: ReadonlyMap<string, EdmType>;
  /** Whether other properties, of any type, are allowed. */
  readonly open: boolean;
}

const ENTITY_TYPES: DeclaredTypes = {
  types: new Map([
    ["PartitionKey", "Edm.String"],
    ["RowKey", "Edm.String"],
    ["Timestamp", "Edm.DateTime"],
  ]),
  open: true,
};

const TABLE_TYPES: DeclaredTypes = { types: new Map([["TableName", "Edm.String"]]), open: false };

/**
 * What a phrase may be before its position decides: a filter or a value. `computed` is a function
 * call or arithmetic; it is parsed to the end, so that malformed text gets 400 and the rest 501.
 */
type Term =
  | FilterNode
  | { readonly kind: "literal"; readonly literal: Literal }
  | { readonly kind: "null" }
  | { readonly kind: "computed" };

/**
 * Recursive descent, one method per rule:
 *
 *     filter     := or END
 *     or         := and ("or" and)*
 *     and        := not ("and" not)*
 *     not        := "not" not | comparison
 *     comparison := sum [("eq" | "ne" | "lt" | "le" | "gt" | "ge") sum]
 *     sum        := product (("add" | "sub") product)*
 *     product    := sign (("mul" | "div" | "mod") sign)*
 *     sign       := "-" sign | primary
 *     primary    := "(" or ")" | LITERAL | "null" | NAME | NAME "(" [or ("," or)*] ")"
 *
 * Operators are lower case. Only "(" , "not" and "-" nest, up to a limit; chains are loops. Errors
 * of meaning are thrown only after the whole text proved syntactically correct.
 */
class FilterParser {
  readonly #lexer: FilterLexer;
  readonly #declared: DeclaredTypes;
  #token: Token;
  #depth = 0;
  #refusal: ServiceError | undefined;

  constructor(text: string, declared: DeclaredTypes) {
    this.#lexer = new FilterLexer(text);
    this.#declared = declared;
    this.#token = this.#lexer.next();
  }

  parse(): FilterNode {
    const term = this.#or();
    if (this.#token.kind !== "end") throw this.#unexpected();
    const type = this.#typeOf(term);
    if (type !== undefined && type !== "Edm.Boolean") {
      this.#refuse("The $filter expression must evaluate to a single boolean value.");
    }
    const filter = this.#toFilter(term);
    if (this.#refusal !== undefined) throw this.#refusal;
    return filter;
  }

  #or(): Term {
    return this.#chain("or", "Or", () => this.#and());
  }

  #and(): Term {
    return this.#chain("and", "And", () => this.#not());
  }

  #chain(kind: "or" | "and", operatorKind: string, operand: () => Term): Term {
    const first = operand();
    if (!this.#at(kind)) return first;
    const clauses = [this.#toFilter(first)];
    let leftType = this.#typeOf(first);
    while (this.#at(kind)) {
      this.#advance();
      const right = operand();
      this.#checkLogical(leftType, this.#typeOf(right), operatorKind);
      clauses.push(this.#toFilter(right));
      leftType = "Edm.Boolean";
    }
    return { kind, clauses };
  }

  #not(): Term {
    if (!this.#at("not")) return this.#comparison();
    this.#advance();
    // `not (` counts as one level, like a bare `not`, because printing may add the parentheses.
    const term = this.#token.kind === "(" ? this.#not() : this.#nested(() => this.#not());
    const type = this.#typeOf(term);
    if (type !== undefined && type !== "Edm.Boolean") {
      this.#refuse(
        `A unary operator with an incompatible type was detected. Found operand type '${type}' for operator kind 'Not'.`,
      );
    }
    return { kind: "not", clause: this.#toFilter(term) };
  }

  #comparison(): Term {
    const left = this.#sum();
    const operator = this.#operator();
    if (operator === undefined) return left;
    this.#advance();
    return this.#compare(left, operator, this.#sum());
  }

  #sum(): Term {
    return this.#arithmetic(["add", "sub"], () => this.#product());
  }

  #product(): Term {
    return this.#arithmetic(["mul", "div", "mod"], () => this.#sign());
  }

  #arithmetic(operators: readonly string[], operand: () => Term): Term {
    let term = operand();
    while (this.#token.kind === "name" && operators.includes(this.#token.text)) {
      this.#advance();
      operand();
      term = this.#computed();
    }
    return term;
  }

  #sign(): Term {
    if (this.#token.kind !== "-") return this.#primary();
    this.#advance();
    this.#nested(() => this.#sign());
    return this.#computed();
  }

  #primary(): Term {
    const token = this.#token;
    switch (token.kind) {
      case "(": {
        this.#advance();
        const term = this.#nested(() => this.#or());
        this.#expect(")");
        return term;
      }
      case "literal":
        this.#advance();
        return { kind: "literal", literal: token.literal };
      case "name":
        this.#advance();
        if (this.#token.kind === "(") return this.#call(token.text);
        return token.text === "null" ? { kind: "null" } : this.#property(token.text);
      default:
        throw this.#unexpected();
    }
  }

  #call(name: string): Term {
    this.#advance();
    if (this.#token.kind !== ")") {
      this.#nested(() => this.#or());
      while (this.#token.kind === ",") {
        this.#advance();
        this.#nested(() => this.#or());
      }
    }
    this.#expect(")");
    if (FUNCTIONS.has(name)) return this.#computed();
    this.#refuse();
    return { kind: "computed" };
  }

  #property(name: string): PropertyNode {
    if (!this.#declared.open && !this.#declared.types.has(name)) this.#refuse();
    return { kind: "property", property: name };
  }

  #computed(): Term {
    this.#refusal ??= new ServiceError("NotImplemented");
    return { kind: "computed" };
  }

  /** The filter a comparison means; a constant as placeholder if the comparison is refused. */
  #compare(left: Term, operator: ComparisonOperator, right: Term): FilterNode {
    const types = [this.#typeOf(left), this.#typeOf(right)] as const;
    if (left.kind === "literal" && right.kind === "literal") {
      const value = compareLiterals(left.literal, operator, right.literal);
      if (value === undefined) this.#refuse(incompatible(...types, OPERATOR_KINDS[operator]));
      return { kind: "constant", value: value === true };
    }
    if (types[0] !== undefined && types[1] !== undefined && types[0] !== types[1]) {
      this.#refuse(incompatible(...types, OPERATOR_KINDS[operator]));
    } else if (left.kind === "property" && right.kind === "literal") {
      const { property } = left;
      return { kind: "comparison", property, operator, literal: right.literal };
    } else if (left.kind === "literal" && right.kind === "property") {
      const { property } = right;
      return { kind: "comparison", property, operator: MIRRORED[operator], literal: left.literal };
    } else {
      // null, two properties, or whole filters compared.
      this.#refuse();
    }
    return { kind: "constant", value: false };
  }

  #checkLogical(left: EdmType | undefined, right: EdmType | undefined, operatorKind: string): void {
    const [leftType, rightType] = [left ?? "Edm.Boolean", right ?? "Edm.Boolean"] as const;
    if (leftType === "Edm.Boolean" && rightType === "Edm.Boolean") return;
    this.#refuse(incompatible(leftType, rightType, operatorKind));
  }

  /** Converts a term used as a filter. Its type is checked by the caller, which knows the operator. */
  #toFilter(term: Term): FilterNode {
    if (term.kind === "null") this.#refuse();
    if (term.kind === "null" || term.kind === "computed") return { kind: "constant", value: false };
    if (term.kind !== "literal") return term;
    return { kind: "constant", value: term.literal.value === true };
  }

  /** Undefined if it may be of any type. */
  #typeOf(term: Term): EdmType | undefined {
    switch (term.kind) {
      case "literal":
        return term.literal.type;
      case "property":
        return this.#declared.types.get(term.property);
      case "null":
      case "computed":
        return undefined;
      default:
        return "Edm.Boolean";
    }
  }

  #at(keyword: string): boolean {
    return this.#token.kind === "name" && this.#token.text === keyword;
  }

  #operator(): ComparisonOperator | undefined {
    if (this.#token.kind !== "name") return undefined;
    const { text } = this.#token;
    return isOperator(text) ? text : undefined;
  }

  #nested<T>(parse: () => T): T {
    if (this.#depth >= LIMITS.filterDepthMax) {
      throw new ServiceError("InvalidInput", {
        message: "Recursion depth exceeded allowed limit.",
      });
    }
    this.#depth++;
    const result = parse();
    this.#depth--;
    return result;
  }

  #expect(kind: Token["kind"]): void {
    if (this.#token.kind !== kind) throw this.#unexpected();
    this.#advance();
  }

  #advance(): void {
    this.#token = this.#lexer.next();
  }

  #unexpected(): ServiceError {
    return this.#lexer.syntaxError(this.#token.end);
  }

  /** Records the first semantic error; `parse` throws it after reading the whole text. */
  #refuse(message?: string): void {
    if (this.#refusal !== undefined) return;
    this.#refusal = new ServiceError("InvalidInput", message === undefined ? {} : { message });
  }
}

const OPERATOR_KINDS: Record<ComparisonOperator, string> = {
  eq: "Equal",
  ne: "NotEqual",
  lt: "LessThan",
  le: "LessThanOrEqual",
  gt: "GreaterThan",
  ge: "GreaterThanOrEqual",
};

/** `5 lt Age` is `Age gt 5`. */
const MIRRORED: Record<ComparisonOperator, ComparisonOperator> = {
  eq: "eq",
  ne: "ne",
  lt: "gt",
  le: "ge",
  gt: "lt",
  ge: "le",
};

function isOperator(text: string): text is ComparisonOperator {
  return OPERATORS.has(text);
}

/** A Set, because a lookup in an object first searches the runtime's table of all property names. */
const OPERATORS: ReadonlySet<string> = new Set(Object.keys(OPERATOR_KINDS));

/** Functions of OData that the service does not implement. */
const FUNCTIONS: ReadonlySet<string> = new Set(
  (
    "substringof endswith startswith length indexof insert remove replace substring tolower toupper " +
    "trim concat day hour minute month second year round floor ceiling isof cast"
  ).split(" "),
);

function incompatible(
  left: EdmType | undefined,
  right: EdmType | undefined,
  operatorKind: string,
): string {
  return `A binary operator with incompatible types was detected. Found operand types '${left}' and '${right}' for operator kind '${operatorKind}'.`;
}
