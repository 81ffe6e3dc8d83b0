/** What `tcready check` and `tcready fix` print as JSON, as far as it is shown. */

import { lastLine } from './command';
import type { Ended } from './process';

interface Target {
  readonly target: string;
  readonly mode: string;
  readonly verdict: string;
  readonly verdict_reason: string;
}

interface Report {
  readonly targets: readonly Target[];
}

/** Lines and columns count from 1, columns in characters; the end is one past the last. */
export interface Edit {
  readonly path: string;
  readonly start_line: number;
  readonly start_column: number;
  readonly end_line: number;
  readonly end_column: number;
  readonly new_text: string;
}

export interface Change {
  readonly path: string;
  readonly line: number;
  readonly rule: string | null;
  readonly how: string;
  readonly state: string;
  readonly reason: string | null;
  readonly condition: string | null;
  readonly called_before: boolean;
}

export interface Fixes {
  readonly changes: readonly Change[];
  readonly refused: readonly Change[];
  readonly no_fix: readonly { readonly path: string; readonly line: number; readonly reason: string }[];
  readonly edits: readonly Edit[];
  readonly settings_code: readonly string[];
  readonly failure: string | null;
  readonly breaks_before: number | null;
  readonly breaks_after: number | null;
}

/** Return the parsed answer of a command, an object, else why there is none, in one line. */
export function answerOf(ended: Ended): unknown {
  if (ended.error !== undefined) {
    return `tcready could not be started: ${ended.error}`;
  }
  try {
    return JSON.parse(ended.stdout);
  } catch {
    return lastLine(ended.stderr) || `tcready ended with exit code ${String(ended.code)} and printed nothing`;
  }
}

/** Return one line for each target of a report of `tcready check`, or why there is none. */
export function verdictsOf(ended: Ended): { readonly lines: readonly string[]; readonly problem?: string } {
  const report = answerOf(ended) as Report | string;
  if (typeof report === 'string') {
    return { lines: [], problem: report };
  }
  const several = new Set(report.targets.map((each) => each.mode)).size > 1;
  const lines = report.targets.map((each) => {
    const mode = several ? ` (${each.mode})` : '';
    const [first] = each.verdict_reason.split('; ');
    return `${each.target}${mode}: ${each.verdict.replaceAll('_', ' ').toUpperCase()}${first ? `: ${first}` : ''}`;
  });
  return ended.code === 2 ? { lines, problem: lastLine(ended.stderr) || 'the check could not be completed' } : { lines };
}

/** Return what `tcready fix --verify` found, for the log. */
export function describeFixes(fixes: Fixes): string[] {
  const at = (each: { path: string; line: number }): string => `${each.path}:${each.line}`;
  const proposed = fixes.changes.map((each) => {
    const except = each.condition === null ? '' : `; holds, except ${each.condition}`;
    return `${each.state}: ${at(each)} ${each.rule ?? ''} ${each.how}${except}`;
  });
  const refused = fixes.refused.map((each) => `refused: ${at(each)} ${each.rule ?? ''} ${each.how}: ${each.reason ?? ''}`);
  const none = fixes.no_fix.map((each) => `no change: ${at(each)}: ${each.reason}`);
  return [...proposed, ...refused, ...none, ...besides(fixes)];
}

/** Return what belongs to the changes besides edits: lines to execute before the model is compiled. */
export function besides(fixes: Fixes): string[] {
  const called = fixes.changes.some((each) => each.called_before);
  return [
    ...fixes.settings_code.map((line) => `Before compiling: ${line}`),
    ...(called ? ['Before compiling: call the model once in eager mode'] : []),
  ];
}

/** Return one sentence about the changes, for the question whether to apply them. */
export function summaryOf(fixes: Fixes): string {
  const count = fixes.changes.length;
  const breaks = fixes.breaks_before === null ? '' : `; graph breaks: ${fixes.breaks_before} before, ${fixes.breaks_after ?? '?'} after`;
  const states = new Set(fixes.changes.map((each) => each.state));
  const proved = states.size === 1 && states.has('proved') ? 'verified' : 'proposed';
  return `${count} ${proved} change${count === 1 ? '' : 's'}${breaks}`;
}

/** A part of a text to replace, in UTF-16 units from its beginning. */
export interface Span {
  readonly start: number;
  readonly end: number;
  readonly text: string;
}

/** Return edits of a file as spans of its text, in order. Throws if one is outside of the text or two overlap. */
export function spansOf(text: string, edits: readonly Edit[]): Span[] {
  const starts = [0];
  for (const end of text.matchAll(/\r\n|\r|\n/g)) {
    starts.push(end.index + end[0].length);
  }
  const offset = (line: number, column: number): number => {
    const start = starts[line - 1] ?? (line === starts.length + 1 && column === 1 ? text.length : undefined);
    if (start === undefined) {
      throw new RangeError(`line ${line} is not in the file`);
    }
    const characters = Array.from(text.slice(start, starts[line] ?? text.length)); // not UTF-16 units
    return start + characters.slice(0, column - 1).join('').length;
  };
  const newline = text.includes('\r\n') ? '\r\n' : '\n';
  const spans = edits
    .map((each) => ({
      start: offset(each.start_line, each.start_column),
      end: offset(each.end_line, each.end_column),
      text: each.new_text.replaceAll(/\r\n|\n/g, newline),
    }))
    .sort((one, other) => one.start - other.start || one.end - other.end);
  spans.forEach((span, index) => {
    if (span.end < span.start || span.start < (spans[index - 1]?.end ?? 0)) {
      throw new RangeError('two edits overlap');
    }
  });
  return spans;
}

/** Return a text with spans of it replaced; they are in order. */
export function replaceSpans(text: string, spans: readonly Span[]): string {
  let result = '';
  let at = 0;
  for (const span of spans) {
    result += text.slice(at, span.start) + span.text;
    at = span.end;
  }
  return result + text.slice(at);
}

/** Return the edits of each file, by its path as tcready names it. */
export function editsByPath(edits: readonly Edit[]): Map<string, Edit[]> {
  const found = new Map<string, Edit[]>();
  for (const edit of edits) {
    found.set(edit.path, [...(found.get(edit.path) ?? []), edit]);
  }
  return found;
}
