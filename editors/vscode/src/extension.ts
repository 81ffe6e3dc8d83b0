/** The part of the extension that uses VS Code: commands, the client of the language server, and the gutter. */

import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, statSync } from 'node:fs';
import * as path from 'node:path';

import * as vscode from 'vscode';
import { LanguageClient } from 'vscode-languageclient/node';

import { candidates, choose, type Command, shown } from './command';
import { type LastRun, linesByState, type Models, type State, STATES, targetAt } from './gutter';
import { type Ended, run } from './process';
import { Increments, parseProgress } from './progress';
import {
  answerOf,
  besides,
  describeFixes,
  type Edit,
  editsByPath,
  type Fixes,
  replaceSpans,
  spansOf,
  summaryOf,
  verdictsOf,
} from './results';

const PYTHON_EXTENSION = 'ms-python.python';
/** Milliseconds without a change after which the gutter is drawn again. */
const PAUSE = 400;
/** The scheme of documents that show a proposed change. */
const PROPOSED = 'tcready-proposed';

/** What is used of the Python extension. */
interface PythonApi {
  readonly environments?: {
    getActiveEnvironmentPath(resource?: vscode.Uri): { readonly path: string };
    resolveEnvironment(environment: { readonly path: string }): Promise<{ readonly executable: { readonly uri?: vscode.Uri } } | undefined>;
    readonly onDidChangeActiveEnvironmentPath: vscode.Event<unknown>;
  };
}

let server: Server | undefined;

export async function activate(context: vscode.ExtensionContext): Promise<void> {
  const log = vscode.window.createOutputChannel('tcready', { log: true });
  const started = (server = new Server(log));
  const gutter = new Gutter(context, started);
  const runs = new Runs(context, started, gutter, log);
  const restart = async (): Promise<void> => {
    await started.restart();
    await gutter.redraw();
  };
  context.subscriptions.push(
    log,
    gutter,
    runs,
    vscode.commands.registerCommand('tcready.run', () => runs.check()),
    vscode.commands.registerCommand('tcready.showReport', () => {
      runs.showReport();
    }),
    vscode.commands.registerCommand('tcready.fix', () => runs.fix()),
    vscode.commands.registerCommand('tcready.restart', restart),
    vscode.workspace.onDidChangeConfiguration((event) => {
      if (event.affectsConfiguration('tcready.path')) {
        void restart();
      } else if (event.affectsConfiguration('tcready.gutter')) {
        void gutter.redraw();
      }
    }),
  );
  const python = await pythonApi();
  if (python?.environments !== undefined) {
    context.subscriptions.push(python.environments.onDidChangeActiveEnvironmentPath(() => void restart()));
  }
  await restart();
}

export async function deactivate(): Promise<void> {
  await server?.stop();
}

function setting<T>(name: string, otherwise: T): T {
  return vscode.workspace.getConfiguration('tcready').get<T>(name) ?? otherwise;
}

async function pythonApi(): Promise<PythonApi | undefined> {
  const found = vscode.extensions.getExtension<PythonApi>(PYTHON_EXTENSION);
  try {
    return await found?.activate();
  } catch {
    return undefined; // it reports its own failure
  }
}

/** Return the interpreter that the Python extension selected for the workspace. */
async function selectedInterpreter(): Promise<string | undefined> {
  const environments = (await pythonApi())?.environments;
  if (environments === undefined) {
    return undefined;
  }
  const active = environments.getActiveEnvironmentPath(vscode.workspace.workspaceFolders?.[0]?.uri);
  return (await environments.resolveEnvironment(active))?.executable.uri?.fsPath;
}

/** The client of the language server. */
class Server {
  /** The command that works; undefined if none does. */
  command: Command | undefined;
  private client: LanguageClient | undefined;
  private turn: Promise<void> = Promise.resolve();

  constructor(private readonly log: vscode.LogOutputChannel) {}

  /** Start the server with the current settings, after the one that runs has ended. */
  restart(): Promise<void> {
    return (this.turn = this.turn.then(async () => {
      await this.end();
      await this.start();
    }));
  }

  stop(): Promise<void> {
    return (this.turn = this.turn.then(() => this.end()));
  }

  /** Return the answer to a request of tcready's own about a document; null if there is no server or no answer. */
  async ask<T>(method: string, uri: vscode.Uri): Promise<T | null> {
    if (!this.client?.isRunning()) {
      return null;
    }
    try {
      return await this.client.sendRequest<T | null>(method, { textDocument: { uri: uri.toString() } });
    } catch {
      return null; // an older server, or one that is ending: its own messages are in the log
    }
  }

  private async start(): Promise<void> {
    const folder = vscode.workspace.workspaceFolders?.[0]?.uri.fsPath;
    const cwd = folder ?? process.cwd();
    const found = await choose(candidates(setting('path', ''), folder, await selectedInterpreter()), cwd);
    if (typeof found === 'string') {
      this.log.info(found);
      void this.report(found);
      return;
    }
    this.command = found;
    this.log.info(`starting ${shown(found)} lsp`);
    this.client = new LanguageClient(
      'tcready', // also the prefix of the setting trace.server
      'tcready',
      { command: found.program, args: [...found.args, 'lsp'], options: { cwd } },
      {
        documentSelector: [
          { scheme: 'file', language: 'python' },
          { scheme: 'untitled', language: 'python' },
          { notebook: '*', language: 'python' },
        ],
        outputChannel: this.log,
        traceOutputChannel: this.log,
      },
    );
    try {
      await this.client.start();
    } catch (error) {
      void this.report(`the language server of tcready failed: ${error instanceof Error ? error.message : String(error)}`);
    }
  }

  private async end(): Promise<void> {
    const client = this.client;
    this.client = this.command = undefined;
    try {
      await client?.dispose();
    } catch {
      // it has ended already
    }
  }

  private async report(problem: string): Promise<void> {
    const answer = await vscode.window.showErrorMessage(problem, 'Open Settings', 'Show Log');
    if (answer === 'Open Settings') {
      await vscode.commands.executeCommand('workbench.action.openSettings', 'tcready.path');
    } else if (answer === 'Show Log') {
      this.log.show();
    }
  }
}

/** Marks in the gutter that show how each line ran in the last run. */
class Gutter implements vscode.Disposable {
  private readonly kinds: Record<State, vscode.TextEditorDecorationType>;
  private readonly subscriptions: vscode.Disposable[] = [];
  private waiting: NodeJS.Timeout | undefined;

  constructor(
    context: vscode.ExtensionContext,
    private readonly server: Server,
  ) {
    const ruler: Partial<Record<State, vscode.ThemeColor>> = {
      broke: new vscode.ThemeColor('editorOverviewRuler.errorForeground'),
      eager: new vscode.ThemeColor('editorOverviewRuler.warningForeground'),
      recompiled: new vscode.ThemeColor('editorOverviewRuler.infoForeground'),
    };
    const kind = (state: State): vscode.TextEditorDecorationType =>
      vscode.window.createTextEditorDecorationType({
        gutterIconPath: context.asAbsolutePath(`media/${state}.svg`),
        gutterIconSize: 'contain',
        isWholeLine: true,
        overviewRulerColor: ruler[state],
        overviewRulerLane: vscode.OverviewRulerLane.Left,
      });
    this.kinds = { graph: kind('graph'), eager: kind('eager'), recompiled: kind('recompiled'), broke: kind('broke') };
    const later = (): void => {
      this.soon();
    };
    const watcher = vscode.workspace.createFileSystemWatcher('**/.tcready_cache/*.json');
    this.subscriptions.push(
      ...Object.values(this.kinds),
      watcher,
      watcher.onDidCreate(later),
      watcher.onDidChange(later),
      watcher.onDidDelete(later),
      vscode.window.onDidChangeVisibleTextEditors(later),
      vscode.workspace.onDidSaveTextDocument(later),
      vscode.workspace.onDidChangeTextDocument((event) => {
        if (event.document.languageId === 'python' && event.contentChanges.length > 0) {
          vscode.window.visibleTextEditors.filter((each) => each.document === event.document).forEach((each) => {
            this.draw(each, null);
          });
          this.soon(); // other files may be of the same run
        }
      }),
    );
  }

  dispose(): void {
    clearTimeout(this.waiting);
    this.subscriptions.forEach((each) => {
      each.dispose();
    });
  }

  private soon(): void {
    clearTimeout(this.waiting);
    this.waiting = setTimeout(() => void this.redraw(), PAUSE);
  }

  /** Ask the server about each visible document, and draw its answer if the text is still the same. */
  async redraw(): Promise<void> {
    const shows = setting<boolean>('gutter', true);
    const editors = vscode.window.visibleTextEditors.filter((each) => each.document.languageId === 'python');
    await Promise.all(
      editors.map(async (editor) => {
        const { document } = editor;
        const version = document.version;
        const answer = shows ? await this.server.ask<LastRun>('tcready/lastRun', document.uri) : null;
        if (document.version === version) {
          this.draw(editor, answer);
        }
      }),
    );
  }

  private draw(editor: vscode.TextEditor, answer: LastRun | null): void {
    const lines = linesByState(answer, editor.document.lineCount);
    for (const state of STATES) {
      const ranges = lines[state].map(({ start, end, text }) => ({
        range: new vscode.Range(start, 0, end, 0),
        ...(text === '' ? {} : { hoverMessage: `tcready: in the last run, ${text}` }),
      }));
      editor.setDecorations(this.kinds[state], ranges);
    }
  }
}

/** What a command runs. */
interface Place {
  /** The folder to run it in. */
  readonly root: string;
  readonly target: string;
  readonly command: Command;
  /** Milliseconds since the epoch: files that are newer have changed. */
  readonly since: number;
}

/** The commands that run a model. */
class Runs implements vscode.Disposable {
  private isRunning = false;
  private page: string | undefined;
  private readonly proposed = new Map<string, string>();
  private readonly provider: vscode.Disposable;

  constructor(
    private readonly context: vscode.ExtensionContext,
    private readonly server: Server,
    private readonly gutter: Gutter,
    private readonly log: vscode.LogOutputChannel,
  ) {
    this.provider = vscode.workspace.registerTextDocumentContentProvider(PROPOSED, {
      provideTextDocumentContent: (uri) => this.proposed.get(uri.toString()) ?? '',
    });
  }

  dispose(): void {
    this.provider.dispose();
  }

  /** Run `tcready check` for the model at the cursor. */
  async check(): Promise<void> {
    await this.alone(async () => {
      const place = await this.place();
      if (place === undefined) {
        return;
      }
      const page = this.pageOf(place.root);
      const ended = await this.run(`Run ${place.target}`, place, ['check', place.target, '--run', '--output-format', 'json', '--html', page]);
      if (ended === undefined) {
        return;
      }
      const { lines, problem } = verdictsOf(ended);
      lines.forEach((line) => {
        this.log.info(line);
      });
      if (existsSync(page)) {
        this.page = page;
      }
      await this.gutter.redraw();
      void this.announce(lines, problem);
    });
  }

  /** Show the outcome. A message may stay for ever, so nothing waits for it. */
  private async announce(lines: readonly string[], problem: string | undefined): Promise<void> {
    const report = 'Show Report';
    const text = problem ?? (lines.join(' ') || 'no model was run');
    const answer =
      problem === undefined
        ? await vscode.window.showInformationMessage(text, report)
        : await vscode.window.showErrorMessage(text, 'Show Log');
    if (answer === report) {
      this.showReport();
    } else if (answer !== undefined) {
      this.log.show();
    }
  }

  /** Show the page of the last run of this session, or of an earlier one in the same folder. */
  showReport(): void {
    const page = this.page ?? this.earlierPage();
    if (page === undefined) {
      void vscode.window.showInformationMessage('There is no report yet: use the command "tcready: Run and verify" first.');
      return;
    }
    const panel = vscode.window.createWebviewPanel('tcready.report', 'tcready report', vscode.ViewColumn.Beside, {
      enableScripts: false, // the page works without
      enableFindWidget: true,
      localResourceRoots: [],
    });
    panel.webview.html = readFileSync(page, 'utf8');
  }

  private earlierPage(): string | undefined {
    const folders = vscode.workspace.workspaceFolders ?? [];
    return folders.map((each) => this.pageOf(each.uri.fsPath)).find((each) => existsSync(each));
  }

  private pageOf(root: string): string {
    const storage = (this.context.storageUri ?? this.context.globalStorageUri).fsPath;
    mkdirSync(storage, { recursive: true });
    return path.join(storage, `report-${createHash('sha256').update(root).digest('hex').slice(0, 16)}.html`);
  }

  /** Run `tcready fix --verify` for the model at the cursor, show the changes, and apply them if the user agrees. */
  async fix(): Promise<void> {
    await this.alone(async () => {
      const place = await this.place();
      if (place === undefined) {
        return;
      }
      const ended = await this.run(`Verify fixes of ${place.target}`, place, ['fix', place.target, '--verify', '--output-format', 'json']);
      if (ended === undefined) {
        return;
      }
      const fixes = answerOf(ended) as Fixes | string;
      if (typeof fixes === 'string') {
        void this.announce([], fixes);
        return;
      }
      describeFixes(fixes).forEach((line) => {
        this.log.info(line);
      });
      if (fixes.edits.length === 0) {
        const [first] = besides(fixes);
        const text = fixes.failure ?? (first ? `no change of the code is needed; ${first}` : 'no change could be verified; the log has the reasons.');
        void this.announce([], text);
        return;
      }
      void this.guarded(() => this.propose(fixes, place)); // the user may take any time
    });
  }

  private async propose(fixes: Fixes, place: Place): Promise<void> {
    const files: { document: vscode.TextDocument; version: number; edits: Edit[]; proposal: vscode.Uri }[] = [];
    for (const [name, edits] of editsByPath(fixes.edits)) {
      const file = path.resolve(place.root, name);
      const document = await vscode.workspace.openTextDocument(file);
      if (document.isDirty || statSync(file).mtimeMs > place.since) {
        throw new Error(`${name} has changed since it was verified: save it and use the command again.`);
      }
      const proposal = vscode.Uri.from({ scheme: PROPOSED, path: document.uri.path, query: String(Date.now()) });
      this.proposed.set(proposal.toString(), replaceSpans(document.getText(), spansOf(document.getText(), edits)));
      files.push({ document, version: document.version, edits, proposal });
    }
    try {
      const [first] = files;
      if (files.length === 1 && first !== undefined) {
        const title = `${path.basename(first.document.fileName)}: ${summaryOf(fixes)}`;
        await vscode.commands.executeCommand('vscode.diff', first.document.uri, first.proposal, title, { preview: true });
      } else {
        const shownFiles = files.map((each) => [each.document.uri, each.document.uri, each.proposal]);
        await vscode.commands.executeCommand('vscode.changes', `tcready: ${summaryOf(fixes)}`, shownFiles);
      }
      const more = besides(fixes);
      const text = [`tcready: ${summaryOf(fixes)}.`, ...more].join(' ');
      if ((await vscode.window.showInformationMessage(text, 'Apply', 'Discard')) !== 'Apply') {
        return;
      }
      const edit = new vscode.WorkspaceEdit();
      for (const { document, version, edits } of files) {
        if (document.version !== version) {
          throw new Error(`${path.basename(document.fileName)} has changed since it was verified: nothing was applied.`);
        }
        for (const span of spansOf(document.getText(), edits)) {
          edit.replace(document.uri, new vscode.Range(document.positionAt(span.start), document.positionAt(span.end)), span.text);
        }
      }
      if (!(await vscode.workspace.applyEdit(edit))) {
        throw new Error('VS Code did not apply the changes.');
      }
    } finally {
      files.forEach((each) => this.proposed.delete(each.proposal.toString()));
    }
  }

  /** Return the model at the cursor, and the folder of its project; undefined, with a message, if there is none. */
  private async place(): Promise<Place | undefined> {
    const editor = vscode.window.activeTextEditor;
    const command = this.server.command;
    const problem =
      command === undefined
        ? 'tcready is not running: see its log, or use the command "tcready: Restart server".'
        : editor?.document.uri.scheme !== 'file' || editor.document.languageId !== 'python'
          ? 'Open the Python file of a model first.'
          : undefined;
    if (problem !== undefined || command === undefined || editor === undefined) {
      void vscode.window.showErrorMessage(problem ?? '');
      return undefined;
    }
    if (editor.document.isDirty && !(await editor.document.save())) {
      return undefined;
    }
    const found = await this.server.ask<Models>('tcready/models', editor.document.uri);
    if (found === null) {
      void vscode.window.showErrorMessage('The language server does not read this file: it may be excluded, or of an installed package.');
      return undefined;
    }
    return { root: found.root, target: targetAt(found, editor.selection.active.line), command, since: Date.now() };
  }

  /** Run tcready with progress in a notification and in the log. Return undefined if the user cancelled it. */
  private async run(title: string, place: Place, args: readonly string[]): Promise<Ended | undefined> {
    const further = setting<string[]>('args', []);
    this.log.info(`> ${shown({ program: place.command.program, args: [...place.command.args, ...args, ...further] })}`);
    const ended = await vscode.window.withProgress(
      { location: vscode.ProgressLocation.Notification, title: `tcready: ${title}`, cancellable: true },
      (progress, token) => {
        const abort = new AbortController();
        token.onCancellationRequested(() => {
          abort.abort();
        });
        const increments = new Increments();
        return run(place.command, [...args, ...further], {
          cwd: place.root,
          signal: abort.signal,
          onLine: (line) => {
            this.log.info(line);
            const now = parseProgress(line);
            if (now !== undefined) {
              progress.report({ message: now.text, increment: increments.next(now) });
            }
          },
        });
      },
    );
    if (ended.cancelled) {
      this.log.info('cancelled');
      return undefined;
    }
    return ended;
  }

  /** Do something that runs a model, unless another is running. */
  private async alone(work: () => Promise<void>): Promise<void> {
    if (this.isRunning) {
      void vscode.window.showInformationMessage('tcready is running a model already: cancel that run, or wait for it.');
      return;
    }
    this.isRunning = true;
    await this.guarded(work);
    this.isRunning = false;
  }

  /** Do something, and show why it failed. */
  private async guarded(work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      void vscode.window.showErrorMessage(`tcready: ${error instanceof Error ? error.message : String(error)}`);
    }
  }
}
