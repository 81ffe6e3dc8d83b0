/** How the lines of a document ran in the last run, as the server answers. */

/** The worst last. */
export const STATES = ['graph', 'eager', 'recompiled', 'broke'] as const;
export type State = (typeof STATES)[number];

/** Lines count from 0; `end` is the last. */
export interface Lines {
  readonly start: number;
  readonly end: number;
  readonly text: string;
}

/** The answer to `tcready/lastRun`. */
export interface LastRun {
  readonly targets: readonly string[];
  readonly changed: readonly string[];
  readonly lines: readonly (Lines & { readonly state: string })[];
}

/** The answer to `tcready/models`. */
export interface Models {
  readonly root: string;
  readonly path: string;
  readonly models: readonly { readonly target: string; readonly start: number; readonly end: number }[];
}

/** Return the lines of each state; none without a run, or if files that ran have changed since. */
export function linesByState(answer: LastRun | null | undefined, lineCount: number): Record<State, Lines[]> {
  const found: Record<State, Lines[]> = { graph: [], eager: [], recompiled: [], broke: [] };
  for (const { state, start, end, text } of answer?.lines ?? []) {
    const last = Math.min(end, lineCount - 1);
    if (isState(state) && start >= 0 && start <= last) {
      found[state].push({ start, end: last, text: state === 'graph' ? '' : text });
    }
  }
  return found;
}

function isState(text: string): text is State {
  return (STATES as readonly string[]).includes(text);
}

/** Return the target to run for a cursor: the model around it, else the file. */
export function targetAt(answer: Models, line: number): string {
  const around = answer.models.find((each) => each.start <= line && line <= each.end);
  const target = around?.target ?? answer.path;
  return target.startsWith('-') ? `./${target}` : target; // an option otherwise
}
