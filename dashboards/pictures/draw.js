// draw.js ANSWERS DIRECTORY: two pictures of each dashboard, NAME.png and NAME-light.png, with the answers that
// `dashboards/fleet/answers.py` has written, by Chromium ($CHROMIUM, or the one that is installed).
import { build } from 'esbuild';
import { createRequire } from 'node:module';
import { mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { chromium } from 'playwright-core';

import { below } from './layout.js';

const require = createRequire(import.meta.url);
const here = dirname(fileURLToPath(import.meta.url));
const [WIDTH, TALLEST] = [1400, 1270];
const [answersFile, directory] = process.argv.slice(2);
if (!directory) {
  console.error('usage: draw.js ANSWERS DIRECTORY');
  process.exit(2);
}
const all = JSON.parse(readFileSync(answersFile, 'utf8'));
const made = mkdtempSync(join(tmpdir(), 'gpusnoop-pictures-'));
mkdirSync(directory, { recursive: true });

await build({
  entryPoints: [join(here, 'page.jsx')],
  outfile: join(made, 'page.js'),
  bundle: true,
  // Their ES modules import others' CommonJS as Node does, which esbuild follows to the letter: half of
  // the components would be wrapped in an object.
  alias: Object.fromEntries(['@grafana/ui', '@grafana/data'].map((name) => [name, require.resolve(name)])),
  define: { global: 'window', 'process.env.NODE_ENV': '"production"' },
  loader: { '.svg': 'dataurl', '.ttf': 'dataurl', '.woff': 'dataurl', '.woff2': 'dataurl' },
  logLevel: 'error',
});
// A dashboard without the rows in which no panel has data, and what is below them moved up.
function withoutEmptyRows(dashboard, answers) {
  const hasData = (panel) => Object.values(answers[panel.id] ?? {}).some((series) => series.length);
  const sections = [];
  for (const panel of dashboard.panels) {
    if (panel.type === 'row' || !sections.length) {
      sections.push([]);
    }
    sections.at(-1).push(panel);
  }
  const panels = [];
  let above = 0;
  for (const section of sections) {
    const top = section[0].gridPos.y;
    const height = Math.max(...section.map(({ gridPos }) => gridPos.y + gridPos.h)) - top;
    if (section.some(hasData)) {
      panels.push(...section.map((panel) => ({ ...panel, gridPos: { ...panel.gridPos, y: panel.gridPos.y - above } })));
    } else {
      above += height;
    }
  }
  return { ...dashboard, panels };
}

// The height at which the picture ends: below a row of panels, and not within one.
function height(panels) {
  const bottoms = panels.filter(({ type }) => type !== 'row').map(({ gridPos }) => below(gridPos.y + gridPos.h));
  return Math.max(...bottoms.filter((bottom) => bottom <= TALLEST));
}

const icons = join(here, 'node_modules/@grafana/ui/dist/public/');
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
  args: ['--no-sandbox', '--allow-file-access-from-files'],
});
let mistakes = 0;
for (const file of readdirSync(join(here, '../grafana')).sort()) {
  const dashboard = JSON.parse(readFileSync(join(here, '../grafana', file), 'utf8'));
  // One of nothing but empty panels shows nobody anything.
  if (!Object.values(all.dashboards[dashboard.uid]).some((ofPanel) => Object.values(ofPanel).some((one) => one.length))) {
    console.error(`${dashboard.uid}: no panel has data, so there is no picture of it`);
    continue;
  }
  const picture = {
    dashboard: withoutEmptyRows(dashboard, all.dashboards[dashboard.uid]),
    answers: all.dashboards[dashboard.uid],
    chosen: all.chosen[dashboard.uid] ?? {},
    range: { from: all.from, to: all.to },
    width: WIDTH,
  };
  for (const mode of ['dark', 'light']) {
    await draw(dashboard.uid, { ...picture, mode }, mode === 'dark' ? '' : '-light');
  }
}
await browser.close();
rmSync(made, { recursive: true });
process.exit(mistakes ? 1 : 0);

async function draw(uid, picture, suffix) {
  const html = join(made, `${uid}${suffix}.html`);
  writeFileSync(
    html,
    `<!doctype html><meta charset="utf-8"><link rel="stylesheet" href="page.css"><body style="margin:0"><div id="page"></div>
     <script>window.__grafana_public_path__ = ${JSON.stringify(pathToFileURL(icons).href)};
     window.PICTURE = ${JSON.stringify(picture).replaceAll('<', '\\u003c')}</script>
     <script src="page.js"></script>`
  );
  const viewport = { width: WIDTH, height: height(picture.dashboard.panels) };
  const page = await browser.newPage({ viewport });
  page.on('pageerror', (error) => {
    console.error(`${uid}: ${error.stack}`);
    mistakes++;
  });
  await page.goto(pathToFileURL(html).href);
  await page.waitForTimeout(4000);
  await page.screenshot({ path: join(directory, `${uid}${suffix}.png`) });
  await page.close();
}
