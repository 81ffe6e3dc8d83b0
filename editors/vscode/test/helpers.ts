/** A real tcready, and a folder for it. */

import assert from 'node:assert/strict';
import { mkdtempSync, realpathSync, rmSync } from 'node:fs';
import * as os from 'node:os';
import * as path from 'node:path';
import type { TestContext } from 'node:test';

import { type Command, ofPath } from '../src/command';

/** Return the command of the tcready that is tested, which the environment names. */
export function tcready(): Command {
  const named = process.env.TCREADY_PYTHON;
  assert.ok(named, 'set TCREADY_PYTHON to an interpreter that has tcready with the extra lsp');
  return ofPath(named, undefined);
}

/** Return whether the interpreter is said to have torch. */
export const HAS_TORCH = process.env.TCREADY_WITHOUT_TORCH === undefined;

/** Return a new folder that exists until the end of the test. */
export function folder(context: TestContext): string {
  const made = realpathSync(mkdtempSync(path.join(os.tmpdir(), 'tcready-vscode-')));
  context.after(() => {
    rmSync(made, { recursive: true, force: true });
  });
  return made;
}

export const PRINTING = `\
import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        y = x * 2
        print("seen", x.shape)
        return torch.relu(y + 1)


def get_inputs():
    return [torch.ones(2, 3)]
`;
