/** Commands of a real tcready: how they are started, cancelled, and what they print. */

import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import * as path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { test } from 'node:test';

import { choose, explain, problemOf } from '../src/command';
import { run } from '../src/process';
import { parseProgress } from '../src/progress';
import { answerOf, type Fixes, replaceSpans, spansOf, summaryOf, verdictsOf } from '../src/results';
import { folder, HAS_TORCH, PRINTING, tcready } from './helpers';

test('the first command that works is chosen', async (context) => {
  const cwd = folder(context);
  const missing = { program: path.join(cwd, 'no-such-command'), args: [] };
  assert.deepEqual(await choose([missing, tcready()], cwd), tcready());
  const problem = await choose([missing], cwd);
  assert.ok(typeof problem === 'string');
  assert.ok(problem.startsWith(`${missing.program} was not found: install it with`), problem);
});

test('a missing package and a missing extra are named', async (context) => {
  const cwd = folder(context);
  const { program, args } = tcready();
  assert.equal(await problemOf({ program, args }, cwd), undefined);
  const isolated = { program, args: ['-I', '-S', ...args] }; // without site-packages
  assert.match((await problemOf(isolated, cwd)) ?? '', /^tcready is not installed in .*: run `.* -m pip install 'tcready\[lsp\]'`/);
  mkdirSync(path.join(cwd, 'pygls'));
  writeFileSync(path.join(cwd, 'pygls', '__init__.py'), 'raise ImportError("not here")\n');
  const ended = await run({ program, args }, ['lsp'], { cwd, env: { PYTHONPATH: cwd } });
  assert.match(explain({ program, args }, ended.error, ended.stderr), /^tcready is installed without its language server/);
});

test('a check reports progress and a verdict', { skip: !HAS_TORCH }, async (context) => {
  const cwd = folder(context);
  writeFileSync(path.join(cwd, 'net.py'), PRINTING);
  const lines: string[] = [];
  const args = ['check', 'net.py::Net', '--run', '--output-format', 'json', '--html', path.join(cwd, 'page.html')];
  const ended = await run(tcready(), args, { cwd, onLine: (line) => lines.push(line) });
  assert.equal(ended.code, 1, ended.stderr);
  const { lines: verdicts, problem } = verdictsOf(ended);
  assert.equal(problem, undefined);
  assert.match(verdicts.join('\n'), /^net\.py::Net: [A-Z ]+: 1 break site/);
  assert.ok(lines.some((line) => /^\[\d+ s\] capture/.test(line)), lines.join('\n'));
  assert.ok(lines.every((line) => line === '' || parseProgress(line) !== undefined));
  assert.match(readFileSync(path.join(cwd, 'page.html'), 'utf8'), /<html/);
});

test('a target that cannot be run is a reason', async (context) => {
  const ended = await run(tcready(), ['check', 'no_such.py', '--run', '--output-format', 'json'], { cwd: folder(context) });
  assert.equal(ended.code, 2);
  assert.match(verdictsOf(ended).problem ?? '', /no_such\.py/);
});

test('cancelling ends the model, too', { skip: !HAS_TORCH }, async (context) => {
  const cwd = folder(context);
  const alive = path.join(cwd, 'alive');
  const stuck = `        while True:\n            open(${JSON.stringify(alive)}, "w").write("yes")\n            time.sleep(0.05)\n`;
  writeFileSync(path.join(cwd, 'net.py'), `import time\n${PRINTING.replace('        y = x * 2\n', stuck + '        y = x * 2\n')}`);
  const abort = new AbortController();
  const running = run(tcready(), ['check', 'net.py::Net', '--run', '--output-format', 'json'], { cwd, signal: abort.signal });
  while (!existsSync(alive)) {
    await sleep(50);
  }
  abort.abort();
  const ended = await running;
  assert.equal(ended.cancelled, true);
  const { rm } = await import('node:fs/promises');
  // A model that still ran would write the file again.
  await rm(alive, { force: true });
  await sleep(1000);
  assert.equal(existsSync(alive), false);
});

test('verified changes can be applied as edits', { skip: !HAS_TORCH }, async (context) => {
  const cwd = folder(context);
  writeFileSync(path.join(cwd, 'net.py'), PRINTING);
  const ended = await run(tcready(), ['fix', 'net.py::Net', '--verify', '--output-format', 'json'], { cwd });
  const fixes = answerOf(ended) as Fixes;
  assert.equal(summaryOf(fixes), '1 verified change; graph breaks: 1 before, 0 after');
  assert.equal(readFileSync(path.join(cwd, 'net.py'), 'utf8'), PRINTING, 'nothing is written');
  const after = replaceSpans(PRINTING, spansOf(PRINTING, fixes.edits));
  assert.notEqual(after, PRINTING);
  writeFileSync(path.join(cwd, 'net.py'), after);
  const again = await run(tcready(), ['check', 'net.py', '--no-run', '--output-format', 'json'], { cwd });
  assert.equal(again.code, 0, again.stdout);
});
