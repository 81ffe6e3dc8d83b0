/** The parts that need neither VS Code nor a process. */

import assert from 'node:assert/strict';
import * as os from 'node:os';
import * as path from 'node:path';
import { test } from 'node:test';

import { candidates, explain, lastLine, ofPath, shown } from '../src/command';
import { linesByState, type Models, targetAt } from '../src/gutter';
import { Increments, parseProgress } from '../src/progress';
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
} from '../src/results';

test('the setting names a command or an interpreter', () => {
  assert.deepEqual(ofPath('tcready', '/ws'), { program: 'tcready', args: [] });
  assert.deepEqual(ofPath('/env/bin/tcready', undefined), { program: '/env/bin/tcready', args: [] });
  for (const name of ['python', 'python3', 'python3.12', 'python.exe', 'pypy3']) {
    assert.deepEqual(ofPath(` /env/bin/${name} `, '/ws'), { program: path.resolve('/env/bin', name), args: ['-m', 'tcready'] });
  }
  assert.deepEqual(ofPath('python3', '/ws').program, 'python3', 'found on the PATH');
  assert.equal(ofPath('${workspaceFolder}/.venv/bin/tcready', '/ws').program, path.resolve('/ws/.venv/bin/tcready'));
  assert.equal(ofPath('.venv/bin/tcready', '/ws').program, path.resolve('/ws/.venv/bin/tcready'));
  assert.equal(ofPath('~/env/bin/tcready', '/ws').program, path.join(os.homedir(), 'env/bin/tcready'));
});

test('without the setting, the selected interpreter comes before the PATH', () => {
  const onPath = { program: 'tcready', args: [] };
  assert.deepEqual(candidates('', '/ws', undefined), [onPath]);
  assert.deepEqual(candidates('  ', '/ws', '/env/bin/python'), [{ program: '/env/bin/python', args: ['-m', 'tcready'] }, onPath]);
  assert.deepEqual(candidates('tcready', '/ws', '/env/bin/python'), [onPath], 'what is set is meant');
});

test('what failed is one line with a remedy', () => {
  const python = { program: '/my env/bin/python', args: ['-m', 'tcready'] };
  const command = { program: 'tcready', args: [] };
  const problems = [
    explain(command, 'spawn tcready ENOENT', ''),
    explain(command, 'spawn EACCES', ''),
    explain(python, undefined, '/my env/bin/python: No module named tcready\n'),
    explain(command, undefined, "tcready: error: the language server needs pygls: pip install 'tcready[lsp]'\n"),
    explain(command, undefined, "Error: No such command 'lsp'.\n"),
  ];
  for (const problem of problems) {
    assert.doesNotMatch(problem, /\n/);
    assert.match(problem, /install 'tcready\[lsp\]'/);
  }
  assert.match(problems[2] ?? '', /`"\/my env\/bin\/python" -m pip install/);
  assert.equal(explain(command, undefined, 'Traceback\nImportError: x\n'), 'tcready failed: ImportError: x');
  assert.equal(explain(command, undefined, ''), 'tcready failed: it printed nothing');
  assert.equal(shown(python), '"/my env/bin/python" -m tcready');
  assert.equal(lastLine('a\r\ntcready: error: b\r\n\r\n'), 'b');
});

test('progress is read from the lines of a log', () => {
  assert.deepEqual(parseProgress('running model.py::Net with get_inputs()'), { text: 'running model.py::Net with get_inputs()' });
  assert.deepEqual(parseProgress('[4 s] capture under torch._dynamo.explain'), { text: 'capture under torch._dynamo.explain' });
  assert.deepEqual(parseProgress('[13 s] proof: quantizer.py:41 TCR301: 1 of 4, about 23 s left'), {
    text: 'proof: quantizer.py:41 TCR301: 1 of 4, about 23 s left',
    percent: 25,
  });
  assert.deepEqual(parseProgress('[1 s] shapes, 10 s of the budget left'), { text: 'shapes, 10 s of the budget left' });
  assert.deepEqual(parseProgress('[1 s] x: 0 of 0'), { text: 'x: 0 of 0' });
  assert.equal(parseProgress('  '), undefined);
});

test('a bar never goes back', () => {
  const increments = new Increments();
  const percents = [0, 25, undefined, 50, 0, 60];
  const steps = percents.map((percent) => increments.next(percent === undefined ? { text: '' } : { text: '', percent }));
  assert.deepEqual(steps, [0, 25, 0, 25, 0, 10]);
});

test('lines are grouped by state, and cut at the end of the document', () => {
  const lines = [
    { start: 0, end: 1, state: 'graph', text: 'ran in a graph' },
    { start: 2, end: 2, state: 'broke', text: 'graph break GB0059' },
    { start: 3, end: 9, state: 'eager', text: 'ran eagerly' },
    { start: 12, end: 13, state: 'recompiled', text: 'of an older text' },
    { start: 1, end: 1, state: 'of a newer server', text: '' },
  ];
  assert.deepEqual(linesByState({ targets: ['a'], changed: [], lines }, 5), {
    graph: [{ start: 0, end: 1, text: '' }],
    eager: [{ start: 3, end: 4, text: 'ran eagerly' }],
    recompiled: [],
    broke: [{ start: 2, end: 2, text: 'graph break GB0059' }],
  });
  const none = { graph: [], eager: [], recompiled: [], broke: [] };
  assert.deepEqual(linesByState(null, 5), none);
  assert.deepEqual(linesByState({ targets: [], changed: ['a.py'], lines: [] }, 5), none);
});

test('the target is the model around the cursor, else the file', () => {
  const models: Models = {
    root: '/ws',
    path: '-net.py',
    models: [
      { target: '-net.py::Net', start: 3, end: 8 },
      { target: '-net.py::Other', start: 10, end: 12 },
    ],
  };
  assert.equal(targetAt(models, 3), './-net.py::Net');
  assert.equal(targetAt(models, 12), './-net.py::Other');
  assert.equal(targetAt(models, 9), './-net.py');
  assert.equal(targetAt({ ...models, path: 'a.py', models: [] }, 0), 'a.py');
});

const ENDED = { code: 0, stdout: '', stderr: '', cancelled: false };

test('a report becomes a line for each target, or a reason', () => {
  const target = { target: 'a.py::Net', mode: 'infer', verdict: 'not_ready', verdict_reason: '2 break sites; and more' };
  const stdout = JSON.stringify({ targets: [target] });
  assert.deepEqual(verdictsOf({ ...ENDED, code: 1, stdout }), { lines: ['a.py::Net: NOT READY: 2 break sites'] });
  const both = JSON.stringify({ targets: [target, { ...target, mode: 'train', verdict: 'ready_by_region', verdict_reason: '' }] });
  assert.deepEqual(verdictsOf({ ...ENDED, stdout: both }).lines, [
    'a.py::Net (infer): NOT READY: 2 break sites',
    'a.py::Net (train): READY BY REGION',
  ]);
  assert.deepEqual(verdictsOf({ ...ENDED, code: 2, stdout, stderr: 'x\ntcready: error: torch is not installed\n' }), {
    lines: ['a.py::Net: NOT READY: 2 break sites'],
    problem: 'torch is not installed',
  });
  assert.deepEqual(verdictsOf({ ...ENDED, code: 2, stderr: 'tcready: error: no such file\n' }), { lines: [], problem: 'no such file' });
  assert.match(String(answerOf({ ...ENDED, code: 3 })), /exit code 3/);
  assert.match(String(answerOf({ ...ENDED, error: 'ENOENT' })), /ENOENT/);
});

const CHANGE = { path: 'a.py', line: 4, rule: 'TCR301', how: 'Prints in eager mode only', state: 'proved', reason: null, condition: null, called_before: false };
const FIXES: Fixes = {
  changes: [CHANGE],
  refused: [],
  no_fix: [],
  edits: [],
  settings_code: [],
  failure: null,
  breaks_before: 2,
  breaks_after: 0,
};

test('changes are described before they are applied', () => {
  assert.equal(summaryOf(FIXES), '1 verified change; graph breaks: 2 before, 0 after');
  const mixed = { ...FIXES, changes: [CHANGE, { ...CHANGE, state: 'one_side' }], breaks_before: null };
  assert.equal(summaryOf(mixed), '2 proposed changes');
  const more: Fixes = {
    ...FIXES,
    changes: [{ ...CHANGE, called_before: true, condition: 'for empty inputs' }],
    refused: [{ ...CHANGE, state: 'refuted', reason: 'output 0 differs' }],
    no_fix: [{ path: 'b.py', line: 1, reason: 'the rule has no change' }],
    settings_code: ['torch._dynamo.config.capture_scalar_outputs = True'],
  };
  assert.deepEqual(besides(more), [
    'Before compiling: torch._dynamo.config.capture_scalar_outputs = True',
    'Before compiling: call the model once in eager mode',
  ]);
  assert.deepEqual(describeFixes(more).slice(0, 3), [
    'proved: a.py:4 TCR301 Prints in eager mode only; holds, except for empty inputs',
    'refused: a.py:4 TCR301 Prints in eager mode only: output 0 differs',
    'no change: b.py:1: the rule has no change',
  ]);
});

function edit(start: [number, number], end: [number, number], text: string, name = 'a.py'): Edit {
  return { path: name, start_line: start[0], start_column: start[1], end_line: end[0], end_column: end[1], new_text: text };
}

test('edits count characters, and keep the ends of lines', () => {
  const text = "x = '😀'; y = 1\r\nz = 2\r\n";
  const edits = [edit([2, 1], [3, 1], 'z = 3\nw = 4\n'), edit([1, 10], [1, 11], 'why')];
  assert.equal(replaceSpans(text, spansOf(text, edits)), "x = '😀'; why = 1\r\nz = 3\r\nw = 4\r\n");
  assert.equal(replaceSpans('a', spansOf('a', [edit([1, 2], [1, 2], '\n')])), 'a\n');
  assert.equal(replaceSpans('a', spansOf('a', [edit([2, 1], [2, 1], '!')])), 'a!', 'behind the last line');
  assert.equal(replaceSpans('', []), '');
  assert.throws(() => spansOf('a\n', [edit([4, 1], [4, 1], '')]), RangeError);
  assert.throws(() => spansOf('abc', [edit([1, 1], [1, 3], ''), edit([1, 2], [1, 4], '')]), /overlap/);
  const grouped = editsByPath([edit([1, 1], [1, 1], ''), edit([1, 1], [1, 1], '', 'b.py'), edit([2, 1], [2, 1], '')]);
  assert.deepEqual([...grouped].map(([name, those]) => [name, those.length]), [['a.py', 2], ['b.py', 1]]);
});
