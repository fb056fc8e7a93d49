import { useSignal } from "@preact/signals";
import type { TargetedEvent } from "preact";
import { Mark } from "./mark.tsx";
import { type Credential, DEVELOPMENT, farewell, logIn, ServerError } from "./session.ts";

export function LoginScreen() {
  const failure = useSignal("");
  const isBusy = useSignal(false);
  const way = useSignal<"key" | "sas">("key");
  const enter = async (credential: Credential) => {
    isBusy.value = true;
    failure.value = "";
    try {
      await logIn(credential);
    } catch (error) {
      if (!(error instanceof ServerError)) throw error;
      failure.value = error.message;
    }
    isBusy.value = false;
  };
  const submit = (event: TargetedEvent<HTMLFormElement, Event>) => {
    event.preventDefault();
    const given = new FormData(event.currentTarget);
    const text = (name: string) => String(given.get(name) ?? "").trim();
    enter(
      way.value === "key" ? { account: text("account"), key: text("key") } : { sas: text("sas") },
    );
  };
  const isLocal = /^(localhost|127\.|\[::1\])/.test(location.hostname);
  return (
    <main class="login">
      <div class="login-box">
        <h1>
          <Mark /> Rowhouse
        </h1>
        <p class="quiet">The explorer of the tables at {location.host}</p>
        {farewell.value !== "" && (
          <p class="notice" role="status">
            {farewell.value}
          </p>
        )}
        <div class="tabs" role="tablist" aria-label="Log in with">
          {(["key", "sas"] as const).map((each) => (
            <button
              type="button"
              role="tab"
              id={`tab-${each}`}
              aria-selected={way.value === each}
              aria-controls="login-way"
              onClick={() => {
                way.value = each;
                failure.value = "";
              }}
            >
              {each === "key" ? "Account and key" : "Shared access signature"}
            </button>
          ))}
        </div>
        <div id="login-way" role="tabpanel" aria-labelledby={`tab-${way.value}`}>
          <form onSubmit={submit}>
            {way.value === "key" ? (
              <>
                <label>
                  Account
                  <input
                    name="account"
                    required
                    autocomplete="username"
                    spellcheck={false}
                    autofocus
                  />
                </label>
                <label>
                  Key
                  <input name="key" type="password" required autocomplete="current-password" />
                </label>
              </>
            ) : (
              <label>
                URL with the signature
                <textarea
                  name="sas"
                  required
                  rows={4}
                  spellcheck={false}
                  placeholder={`${location.origin}/ACCOUNT?sv=…&sig=…`}
                />
              </label>
            )}
            {failure.value !== "" && (
              <p class="error" role="alert">
                {failure.value}
              </p>
            )}
            <button type="submit" class="primary" disabled={isBusy.value}>
              Log in
            </button>
          </form>
        </div>
        {isLocal && (
          <button
            type="button"
            class="link"
            disabled={isBusy.value}
            onClick={() => enter(DEVELOPMENT)}
          >
            Use the development account, {DEVELOPMENT.account}
          </button>
        )}
        <p class="quiet small">
          The session stays in this tab and ends after 12 hours. A signature opens exactly what it
          allows.
        </p>
      </div>
    </main>
  );
}
