/** The lines that tcready writes to stderr while it works. */

export interface Progress {
  /** What is being done, for people. */
  readonly text: string;
  /** How much of it is done, in percent; undefined if it cannot be counted. */
  readonly percent?: number;
}

const LINE = /^\[\d+ s\] (?<text>.*?)(?:: (?<done>\d+) of (?<of>\d+))?(?<left>, [^,]* left)?$/;

/** Return the progress that a line reports; undefined for an empty line. */
export function parseProgress(line: string): Progress | undefined {
  const text = line.trim();
  if (text === '') {
    return undefined;
  }
  const found = LINE.exec(text)?.groups;
  if (found === undefined) {
    return { text };
  }
  const counted = found.done === undefined ? '' : `: ${found.done} of ${found.of ?? ''}`;
  const shown = `${found.text ?? ''}${counted}${found.left ?? ''}`;
  const of = Number(found.of);
  return of > 0 ? { text: shown, percent: Math.min(100, (100 * Number(found.done)) / of) } : { text: shown };
}

/** Converts progress to increments, as VS Code counts it: each stage counts anew, and a bar never goes back. */
export class Increments {
  private reached = 0;

  next(progress: Progress): number {
    const increment = Math.max(0, (progress.percent ?? 0) - this.reached);
    this.reached += increment;
    return increment;
  }
}
