/** Which command starts tcready, and why one does not work. */

import * as os from 'node:os';
import * as path from 'node:path';

import { run } from './process';

/** A program with its leading arguments. */
export interface Command {
  readonly program: string;
  readonly args: readonly string[];
}

const INTERPRETER = /^(python|pypy)[\d.]*(\.exe)?$/i;

/** Return the command for the setting `tcready.path`: that of an interpreter runs the module. */
export function ofPath(setting: string, folder: string | undefined): Command {
  let named = setting.trim().replaceAll('${workspaceFolder}', folder ?? '.');
  if (named === '~' || named.startsWith('~/') || named.startsWith('~\\')) {
    named = path.join(os.homedir(), named.slice(1));
  }
  const hasFolder = named.includes('/') || named.includes(path.sep);
  const program = hasFolder && folder !== undefined ? path.resolve(folder, named) : named;
  return ofProgram(program);
}

function ofProgram(program: string): Command {
  const isInterpreter = INTERPRETER.test(path.basename(program));
  return { program, args: isInterpreter ? ['-m', 'tcready'] : [] };
}

/** Return the commands to try, in this order. `interpreter` is the one that the Python extension selected. */
export function candidates(setting: string, folder: string | undefined, interpreter: string | undefined): Command[] {
  if (setting.trim() !== '') {
    return [ofPath(setting, folder)];
  }
  const onPath: Command = { program: 'tcready', args: [] };
  return interpreter === undefined ? [onPath] : [{ program: interpreter, args: ['-m', 'tcready'] }, onPath];
}

/** Return a command as it is typed. */
export function shown(command: Command): string {
  return [command.program, ...command.args].map((word) => (/\s/.test(word) ? `"${word}"` : word)).join(' ');
}

/** Return why the language server does not start, with a remedy, in one line; undefined if it starts. */
export async function problemOf(command: Command, cwd: string): Promise<string | undefined> {
  // Without a client on stdin, the server ends at once.
  const ended = await run(command, ['lsp'], { cwd });
  return ended.code === 0 ? undefined : explain(command, ended.error, ended.stderr);
}

/** Return what failed and what to do, in one line, from the error of the system or what the command printed. */
export function explain(command: Command, error: string | undefined, stderr: string): string {
  const isModule = command.args.includes('tcready');
  const install = isModule ? `${shown({ ...command, args: [] })} -m pip install 'tcready[lsp]'` : "pip install 'tcready[lsp]'";
  if (error !== undefined) {
    const why = error.includes('ENOENT') ? 'was not found' : `could not be started (${error})`;
    return `${command.program} ${why}: install it with \`${install}\`, or name the command in the setting tcready.path.`;
  }
  if (/No module named '?tcready\b/.test(stderr)) {
    return `tcready is not installed in ${command.program}: run \`${install}\`, or name another environment in the setting tcready.path.`;
  }
  if (stderr.includes("'tcready[lsp]'")) {
    return `tcready is installed without its language server in the environment of ${command.program}: run \`${install}\`.`;
  }
  if (/No such command '?lsp/.test(stderr)) {
    return `${shown(command)} has no language server: update it with \`${install} --upgrade\`.`;
  }
  return `${shown(command)} failed: ${lastLine(stderr) || 'it printed nothing'}`;
}

/** Return the last line with text, without the prefix of our own messages. */
export function lastLine(text: string): string {
  const lines = text.split(/\r?\n/).filter((line) => line.trim() !== '');
  return (lines.at(-1) ?? '').trim().replace(/^tcready: error: /, '');
}

/** Return the first command that works, else why the first one does not. */
export async function choose(commands: readonly Command[], cwd: string): Promise<Command | string> {
  let problem: string | undefined;
  for (const command of commands) {
    const found = await problemOf(command, cwd);
    if (found === undefined) {
      return command;
    }
    problem ??= found;
  }
  return problem ?? 'no command is configured: name one in the setting tcready.path.';
}
