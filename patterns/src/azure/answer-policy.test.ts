import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it, mock } from "node:test";
import { addAnswerPolicy, pipelineOf } from "./answer-policy.ts";

describe("the answer policy", () => {
  beforeEach(() => mock.timers.enable({ apis: ["setInterval"] }));
  afterEach(() => mock.timers.reset());

  it("never aborts a request whose body is a stream that the program supplied", async () => {
    type Send = Parameters<Parameters<typeof addAnswerPolicy>[0]["addPolicy"]>[0]["sendRequest"];
    let send: Send | undefined;
    const pipeline = {
      removePolicy: () => undefined,
      addPolicy: (policy: { readonly sendRequest: Send }) => {
        send = policy.sendRequest;
      },
    };
    addAnswerPolicy(pipeline, "blob", { answerWithinMs: 1000 });
    const outcomes: unknown[] = [];
    for (const body of [() => new ReadableStream(), new ReadableStream(), "text", undefined]) {
      const request: Parameters<Send>[0] = { body, headers: { get: () => undefined } };
      await send?.(request, async ({ abortSignal }) => {
        mock.timers.tick(5000);
        outcomes.push(abortSignal?.aborted);
        return { status: 201, headers: { get: () => "1" } };
      });
    }
    assert.deepEqual(outcomes, [false, false, true, true]);
  });

  it("is refused for objects that are not clients", () => {
    for (const none of [{}, undefined]) {
      assert.throws(() => pipelineOf(none), /QueueServiceClient or BlobServiceClient/);
    }
  });
});
