// Opens HTML reports in Chromium: see ci/html. Usage: node html.mjs FOLDER-FOR-SCREENSHOTS REPORT...
import { readFileSync, statSync } from 'node:fs';
import { createRequire } from 'node:module';
import { basename, join } from 'node:path';
import puppeteer from 'puppeteer-core';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const [shots, ...reports] = process.argv.slice(2);
const views = [
  ['light', { width: 1280, height: 900 }],
  ['dark', { width: 1280, height: 900 }],
  ['light', { width: 390, height: 844, isMobile: true, hasTouch: true }],
  ['dark', { width: 390, height: 844, isMobile: true, hasTouch: true }],
];
const failures = [];
const browser = await puppeteer.launch({ executablePath: process.env.chromium, args: ['--no-sandbox'] });
for (const report of reports) {
  const name = basename(report, '.html');
  for (const [scheme, viewport] of views) {
    const place = `${name}, ${scheme}, ${viewport.width} px`;
    const fail = (what) => failures.push(`${place}: ${what}`);
    const page = await browser.newPage();
    await page.setViewport(viewport);
    await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: scheme }]);
    page.on('request', (request) => request.url().startsWith('file:') || fail(`requests ${request.url()}`));
    page.on('pageerror', (error) => fail(`script error: ${error.message}`));
    const begin = performance.now();
    await page.goto(`file://${report}`, { waitUntil: 'load' });
    // Handles of all elements, as $$eval makes them, would take longer than the page itself.
    const tests = await page.evaluate(() => document.querySelectorAll('.case').length);
    const loaded = performance.now() - begin;
    const answered = await page.evaluate(() => new Promise((done) => {
      const begin = performance.now();
      const field = document.getElementById('search');
      const search = (words) => { field.value = words; field.dispatchEvent(new Event('input', { bubbles: true })); };
      search('service');
      search('');
      requestAnimationFrame(() => setTimeout(() => done(performance.now() - begin)));
    }));
    const ready = loaded + answered;
    const bytes = statSync(report).size;
    if (scheme === 'light' && !viewport.isMobile) {
      console.log(`${name}: ${tests} tests, ${bytes} bytes, loaded after ${loaded.toFixed(0)} ms, a search took ${answered.toFixed(0)} ms`);
      if (tests >= 500 && bytes * 500 / tests > 2e6) fail(`${bytes} bytes for ${tests} tests`);
      if (tests <= 800 && ready > 1000) fail(`interactive only after ${ready.toFixed(0)} ms`);
    }
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    if (wide > 0) fail(`the page is ${wide} px wider than the screen`);
    await page.screenshot({ path: join(shots, `${name}-${scheme}-${viewport.width}.png`) });
    const shown = () => page.evaluate(() => [...document.querySelectorAll('.case')].filter((one) => one.checkVisibility()).length);
    const failed = await page.evaluate(() => document.querySelectorAll('.case[data-status=failed]').length);
    await page.click('input[value=failed]');
    if (await shown() !== failed) fail(`the filter shows ${await shown()} tests, not the ${failed} that failed`);
    await page.click('input[value=all]');
    await page.type('#search', 'no such words');
    if (await shown() !== 0) fail('the search shows what does not match');
    await page.$eval('#search', (field) => { field.value = ''; field.dispatchEvent(new Event('input', { bubbles: true })); });
    if (await shown() !== tests) fail('not everything is shown again');
    // Details of a large report are checked in the small ones.
    if (tests <= 60) await page.evaluate(() => document.querySelectorAll('details').forEach((one) => { one.open = true; }));
    await page.evaluate(axe);
    const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ['violations'] }));
    for (const { id, help, nodes } of violations) {
      fail(`${id}: ${help} (${nodes.length}): ${nodes[0].html.slice(0, 160)}`);
    }
    if (name === 'failing') await page.screenshot({ path: join(shots, `${name}-${scheme}-${viewport.width}-all.png`), fullPage: true });
    await page.close();
  }
}
await browser.close();
failures.forEach((failure) => console.error(`FAILED: ${failure}`));
if (failures.length > 0) process.exit(1);
console.log(`${reports.length} reports, ${views.length} views of each: no accessibility error`);
