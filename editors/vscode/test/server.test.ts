/** A real language server, through the protocol library that the extension uses. */

import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import * as path from 'node:path';
import { type TestContext, test } from 'node:test';
import { pathToFileURL } from 'node:url';

import {
  type CodeAction,
  CodeActionRequest,
  createProtocolConnection,
  DidChangeTextDocumentNotification,
  DidOpenTextDocumentNotification,
  HoverRequest,
  InitializedNotification,
  InitializeRequest,
  type MarkupContent,
  type ProtocolConnection,
  PublishDiagnosticsNotification,
  type PublishDiagnosticsParams,
  ShutdownRequest,
  StreamMessageReader,
  StreamMessageWriter,
} from 'vscode-languageserver-protocol/node';

import { type LastRun, linesByState, type Models, targetAt } from '../src/gutter';
import { run } from '../src/process';
import { folder, HAS_TORCH, PRINTING, tcready } from './helpers';

class Editor {
  private readonly shown = new Map<string, PublishDiagnosticsParams>();
  private waiting: (() => void)[] = [];
  private version = 0;
  readonly uri: string;

  private constructor(
    readonly connection: ProtocolConnection,
    readonly folder: string,
  ) {
    this.uri = pathToFileURL(path.join(folder, 'net.py')).toString();
    connection.onNotification(PublishDiagnosticsNotification.type, (params) => {
      this.shown.set(params.uri, params);
      this.waiting.forEach((each) => {
        each();
      });
      this.waiting = [];
    });
    connection.listen();
  }

  /** Start a server with a folder, as the extension does. */
  static async start(context: TestContext): Promise<Editor> {
    const cwd = folder(context);
    const { program, args } = tcready();
    const child: ChildProcess = spawn(program, [...args, 'lsp'], { cwd, stdio: ['pipe', 'pipe', 'inherit'] });
    assert.ok(child.stdout && child.stdin);
    const connection = createProtocolConnection(new StreamMessageReader(child.stdout), new StreamMessageWriter(child.stdin));
    const editor = new Editor(connection, cwd);
    context.after(async () => {
      const ended = new Promise((resolve) => child.once('exit', resolve));
      await connection.sendRequest(ShutdownRequest.type);
      await connection.sendNotification('exit');
      assert.equal(await ended, 0);
      connection.dispose();
    });
    const found = await connection.sendRequest(InitializeRequest.type, {
      processId: process.pid,
      rootUri: null, // eslint-disable-line @typescript-eslint/no-deprecated -- the type requires it
      workspaceFolders: [{ uri: pathToFileURL(cwd).toString(), name: 'ws' }],
      capabilities: { workspace: { workspaceEdit: { documentChanges: true } }, textDocument: { hover: { contentFormat: ['markdown'] } } },
    });
    assert.equal(found.capabilities.hoverProvider, true);
    await connection.sendNotification(InitializedNotification.type, {});
    return editor;
  }

  async open(text: string): Promise<void> {
    writeFileSync(path.join(this.folder, 'net.py'), text);
    this.version = 1;
    const textDocument = { uri: this.uri, languageId: 'python', version: 1, text };
    await this.connection.sendNotification(DidOpenTextDocumentNotification.type, { textDocument });
  }

  async type(text: string): Promise<void> {
    this.version += 1;
    const textDocument = { uri: this.uri, version: this.version };
    await this.connection.sendNotification(DidChangeTextDocumentNotification.type, { textDocument, contentChanges: [{ text }] });
  }

  /** Return what is shown of the current text, once it was read. */
  async diagnostics(): Promise<PublishDiagnosticsParams['diagnostics']> {
    for (;;) {
      const last = this.shown.get(this.uri);
      if (last?.version === this.version) {
        return last.diagnostics;
      }
      await new Promise<void>((resolve) => this.waiting.push(resolve));
    }
  }

  ask(method: string): Promise<unknown> {
    return this.connection.sendRequest(method, { textDocument: { uri: this.uri } });
  }
}

test('findings, hovers and quick fixes come from the server', async (context) => {
  const editor = await Editor.start(context);
  await editor.open(PRINTING);
  const [found, ...others] = await editor.diagnostics();
  assert.ok(found);
  assert.deepEqual([found.code, found.source, found.range.start.line, others.length], ['TCR301', 'tcready', 7, 0]);
  const position = { line: 7, character: 10 };
  const hover = await editor.connection.sendRequest(HoverRequest.type, { textDocument: { uri: editor.uri }, position });
  const said = (hover?.contents as MarkupContent).value;
  assert.match(said, /^\*\*TCR301\*\*/);
  assert.match(said, /\*\*Use instead:\*\*/);
  const actions = await editor.connection.sendRequest(CodeActionRequest.type, {
    textDocument: { uri: editor.uri },
    range: { start: position, end: position },
    context: { diagnostics: [] },
  });
  const preferred = (actions as CodeAction[]).filter((each) => each.isPreferred);
  assert.equal(preferred.length, 1);
  assert.match(preferred[0]?.title ?? '', /^TCR301: Runs in eager mode only/);
});

test('the model at the cursor is named with the folder to run it in', async (context) => {
  const editor = await Editor.start(context);
  await editor.open(PRINTING);
  const found = (await editor.ask('tcready/models')) as Models;
  assert.equal(found.root, editor.folder);
  assert.equal(targetAt(found, 6), 'net.py::Net');
  assert.equal(targetAt(found, 0), 'net.py');
});

test('a run colours the gutter until the text changes', { skip: !HAS_TORCH }, async (context) => {
  const editor = await Editor.start(context);
  await editor.open(PRINTING);
  const count = PRINTING.split('\n').length;
  assert.equal(await editor.ask('tcready/lastRun'), null);
  const ended = await run(tcready(), ['check', 'net.py::Net', '--run', '--output-format', 'json'], { cwd: editor.folder });
  assert.equal(ended.code, 1, ended.stderr);
  const lines = linesByState((await editor.ask('tcready/lastRun')) as LastRun, count);
  assert.deepEqual(lines.broke.map((each) => [each.start, each.end]), [[7, 7]]);
  assert.match(lines.broke[0]?.text ?? '', /^graph break GB\d+/);
  const inGraphs = lines.graph.flatMap(({ start, end }) => Array.from({ length: end - start + 1 }, (_, index) => start + index));
  assert.deepEqual(inGraphs, [6, 8]);
  await editor.type(`${PRINTING}\n`);
  const stale = (await editor.ask('tcready/lastRun')) as LastRun;
  assert.deepEqual(stale, { targets: [], changed: ['net.py'], lines: [] });
  await editor.type(PRINTING);
  assert.deepEqual(linesByState((await editor.ask('tcready/lastRun')) as LastRun, count), lines);
});
