import { useSignal } from "@preact/signals";
import type { ComponentType } from "preact";
import { useEffect } from "preact/hooks";
import { Failure } from "./failure.tsx";
import type { ScreenName } from "./route-text.ts";
import { partIsMissing, type ServerError } from "./session.ts";

export const SCREEN_TITLES: Readonly<Record<ScreenName, string>> = {
  queues: "Queues",
  blobs: "Blobs",
  heat: "Heat map",
  activity: "Activity",
  advisor: "Advisor",
  sas: "Signatures",
  playground: "Playground",
};

const LOADERS: Readonly<Record<ScreenName, () => Promise<ComponentType>>> = {
  queues: async () => (await import("./queues-screen.tsx")).QueuesScreen,
  blobs: async () => (await import("./blobs-screen.tsx")).BlobsScreen,
  sas: async () => (await import("./sas-screen.tsx")).SasScreen,
  heat: async () => (await import("./heat-screen.tsx")).HeatScreen,
  activity: async () => (await import("./activity-screen.tsx")).ActivityScreen,
  advisor: async () => (await import("./advisor-screen.tsx")).AdvisorScreen,
  playground: async () => (await import("./playground-screen.tsx")).PlaygroundScreen,
};

/** A screen that is loaded when it is first shown. */
export function LaterScreen({ name }: { name: ScreenName }) {
  const screen = useSignal<{ readonly Shown: ComponentType } | undefined>(undefined);
  const failure = useSignal<ServerError | undefined>(undefined);
  const load = async () => {
    failure.value = undefined;
    try {
      screen.value = { Shown: await LOADERS[name]() };
    } catch {
      failure.value = partIsMissing();
    }
  };
  // The screen's name is its key: it never changes.
  useEffect(() => {
    load();
  }, []);
  if (failure.value) return <Failure error={failure.value} again={load} />;
  const Shown = screen.value?.Shown;
  return Shown ? <Shown /> : <p class="quiet">Loading…</p>;
}
