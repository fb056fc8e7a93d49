import { useSignal, useSignalEffect } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { jobs, refreshJobs } from "./jobs.ts";
import { KeysDialog, keysAreShown, listenForKeys } from "./keys.tsx";
import { LaterScreen, SCREEN_TITLES } from "./later-screen.tsx";
import { Mark } from "./mark.tsx";
import { route } from "./route.ts";
import { addressOf, SCREENS, screenAddress } from "./route-text.ts";
import { logOut, session } from "./session.ts";
import { TableNames } from "./table-names.ts";
import { TableScreen } from "./table-screen.tsx";
import { TablesScreen } from "./tables-screen.tsx";
import { nextTheme, theme } from "./theme.ts";
import { useLater } from "./use-later.ts";

/** What is around every screen. */
export function Frame() {
  const tables = useMemo(() => new TableNames(), []);
  useEffect(() => {
    tables.refresh();
    refreshJobs();
    return listenForKeys();
  }, [tables]);
  useSignalEffect(() => {
    const { screen, table } = route.value;
    const title = screen ? SCREEN_TITLES[screen] : table;
    document.title = `${title ?? "Tables"} – Rowhouse`;
  });
  const { account, isReadOnly, kind } = session.value!;
  const { screen, table } = route.value;
  return (
    <div class="frame">
      <header class="top">
        <a class="brand" href="#/">
          <Mark /> Rowhouse
        </a>
        <span class="account" title={`The account ${account} at ${location.host}`}>
          <i
            class="dot"
            style={{ background: `hsl(${hueOf(account)} 60% 50%)` }}
            aria-hidden="true"
          />
          {account} <span class="quiet">{location.host}</span>
        </span>
        {kind === "sas" && <span class="tag">by signature</span>}
        {isReadOnly && <span class="tag">read-only</span>}
        <span class="space" />
        <button
          type="button"
          class="plain"
          onClick={() => {
            keysAreShown.value = true;
          }}
        >
          Keys <kbd>?</kbd>
        </button>
        <button
          type="button"
          class="plain"
          onClick={nextTheme}
          aria-label={`Theme: ${theme.value}`}
        >
          {{ auto: "◐", light: "☀", dark: "☾" }[theme.value]} {theme.value}
        </button>
        <button type="button" class="plain" onClick={() => logOut()}>
          Log out
        </button>
      </header>
      <Rail tables={tables} />
      <main class="screen">
        {screen ? (
          <LaterScreen key={screen} name={screen} />
        ) : table === undefined ? (
          <TablesScreen tables={tables} />
        ) : (
          <TableScreen key={table} table={table} />
        )}
      </main>
      {jobs.value.length > 0 && <Jobs />}
      <KeysDialog />
    </div>
  );
}

const loadJobs = () => import("./jobs-line.tsx");

function Jobs() {
  const { loaded } = useLater(loadJobs);
  return loaded ? <loaded.JobsLine /> : null;
}

const RAIL_MAX = 200;

function Rail({ tables }: { tables: TableNames }) {
  const wanted = useSignal("");
  const names = tables.names.value ?? [];
  const found = names.filter((name) => name.toLowerCase().includes(wanted.value.toLowerCase()));
  return (
    <nav class="rail" aria-label="Screens and tables">
      {SCREENS.map((screen) => (
        <a
          key={screen}
          href={screenAddress(screen)}
          aria-current={route.value.screen === screen ? "page" : undefined}
        >
          {SCREEN_TITLES[screen]}
        </a>
      ))}
      <a
        href="#/"
        aria-current={
          route.value.table === undefined && route.value.screen === undefined ? "page" : undefined
        }
      >
        Tables
      </a>
      {names.length > 8 && (
        <input
          type="search"
          aria-label="Find a table"
          placeholder="Find a table"
          value={wanted.value}
          onInput={(event) => {
            wanted.value = event.currentTarget.value;
          }}
        />
      )}
      <ul>
        {found.slice(0, RAIL_MAX).map((name) => (
          <li key={name}>
            <a
              href={addressOf({ table: name })}
              title={name}
              aria-current={route.value.table === name ? "page" : undefined}
            >
              {name}
            </a>
          </li>
        ))}
      </ul>
      {found.length > RAIL_MAX && (
        <p class="quiet small">and {found.length - RAIL_MAX} more: type above to find one</p>
      )}
    </nav>
  );
}

/** Accounts keep their colour, so that two open tabs are not mistaken for each other. */
function hueOf(name: string): number {
  let hash = 0;
  for (let i = 0; i < name.length; i++) hash = (hash * 31 + name.charCodeAt(i)) % 360;
  return hash;
}
