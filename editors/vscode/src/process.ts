/** Run tcready as a child process that can be cancelled. */

import { spawn } from 'node:child_process';

import type { Command } from './command';

/** Milliseconds after a cancellation until the process is killed. */
const GRACE = 5000;

export interface Options {
  readonly cwd: string;
  /** Called with each line of stderr, without its end. */
  readonly onLine?: (line: string) => void;
  readonly signal?: AbortSignal;
  /** Variables that are set in addition. */
  readonly env?: Readonly<Record<string, string>>;
}

export interface Ended {
  /** Undefined if it could not be started, or a signal ended it. */
  readonly code: number | undefined;
  readonly stdout: string;
  readonly stderr: string;
  readonly cancelled: boolean;
  /** Why it could not be started. */
  readonly error?: string;
}

/** Run a command with further arguments to its end. Its stdin is empty. */
export function run(command: Command, args: readonly string[], options: Options): Promise<Ended> {
  return new Promise((resolve) => {
    const child = spawn(command.program, [...command.args, ...args], {
      cwd: options.cwd,
      env: { ...process.env, ...options.env, NO_COLOR: '1', PYTHONIOENCODING: 'utf-8' },
      stdio: ['ignore', 'pipe', 'pipe'],
      windowsHide: true,
    });
    let stdout = '';
    let stderr = '';
    let rest = '';
    let cancelled = false;
    let killing: NodeJS.Timeout | undefined;
    child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      stderr += text;
      const lines = (rest + text).split(/\r?\n/);
      rest = lines.pop() ?? '';
      lines.forEach((line) => options.onLine?.(line));
    });
    const cancel = (): void => {
      cancelled = true;
      child.kill('SIGINT'); // tcready ends its workers
      killing = setTimeout(() => child.kill('SIGKILL'), GRACE);
    };
    const finish = (code: number | undefined, error?: string): void => {
      clearTimeout(killing);
      options.signal?.removeEventListener('abort', cancel);
      if (rest !== '') {
        options.onLine?.(rest);
      }
      resolve({ code, stdout, stderr, cancelled, ...(error === undefined ? {} : { error }) });
    };
    child.on('error', (error) => {
      if (child.pid === undefined) {
        finish(undefined, error.message);
      }
    });
    child.on('close', (code) => {
      if (child.pid !== undefined) {
        finish(code ?? undefined);
      }
    });
    options.signal?.addEventListener('abort', cancel);
    if (options.signal?.aborted) {
      cancel();
    }
  });
}
