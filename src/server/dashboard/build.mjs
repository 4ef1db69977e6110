// Bundles the dashboard and writes it as a C++ source file with compressed bytes.
//
//   node build.mjs --sources DIR --output DIR
//
// The packages are those of ./node_modules in the current directory, so that the folder of the
// sources stays clean. Writes DIR/assets_data.cpp, and prints the compressed sizes.
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { basename, join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { gzipSync } from 'node:zlib';

const { values } = parseArgs({
  options: { sources: { type: 'string' }, output: { type: 'string' } },
});
const sources = resolve(values.sources ?? '.');
const output = resolve(values.output ?? 'dist');
const packages = resolve('node_modules');
const { build } = createRequire(join(packages, 'index.js'))('esbuild');

const types = { '.js': 'text/javascript; charset=utf-8', '.css': 'text/css; charset=utf-8',
                '.txt': 'text/plain; charset=utf-8' };

// The indentation of templates is not needed. All lines stay.
const squeeze = {
  name: 'squeeze',
  setup(setup) {
    setup.onLoad({ filter: /\.js$/ }, ({ path }) => (path.startsWith(sources)
      ? { contents: readFileSync(path, 'utf8').replace(/\n\s+/g, '\n'), loader: 'js' }
      : undefined));
  },
};

async function bundle() {
  const result = await build({
    entryPoints: [join(sources, 'src/main.js'), join(sources, 'style/main.css')],
    entryNames: '[name]-[hash]',
    chunkNames: '[name]-[hash]',
    absWorkingDir: sources,
    outdir: output,
    bundle: true,
    splitting: true,
    format: 'esm',
    target: 'es2020',
    minify: true,
    write: false,
    nodePaths: [packages],
    plugins: [squeeze],
    legalComments: 'none',
    logLevel: 'warning',
    metafile: true,
  });
  const files = result.outputFiles.map((file) => ({ name: basename(file.path),
    data: file.contents }));
  return [...files, licenses(Object.keys(result.metafile.inputs))];
}

// The folders of the packages that are in the bundle.
function packagesOf(inputs) {
  const found = inputs.map((input) => /.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(input)?.[0]);
  return [...new Set(found.filter(Boolean))].map((folder) => resolve(sources, folder)).sort();
}

// Their licenses require that the notices are distributed with the bundle.
function licenses(inputs) {
  const notices = packagesOf(inputs).map((folder) => {
    const { name, version, license } = JSON.parse(readFileSync(join(folder, 'package.json')));
    const file = readdirSync(folder).find((each) => /^licen[cs]e/i.test(each));
    if (!file) throw new Error(`the package ${name} has no file with its license`);
    const text = readFileSync(join(folder, file), 'utf8').trimEnd();
    return `${name} ${version} (${license})\n\n${text}\n`;
  });
  const data = Buffer.from('The dashboard of Dovetail contains these packages.\n\n' +
    notices.join(`\n${'-'.repeat(80)}\n\n`));
  const hash = createHash('sha256').update(data).digest('hex').slice(0, 8).toUpperCase();
  return { name: `licenses-${hash}.txt`, data };
}

// Bytes as a string literal, which compilers read faster than a list of numbers.
function literal(bytes) {
  const lines = [];
  for (let i = 0; i < bytes.length; i += 64) {
    const part = Array.from(bytes.subarray(i, i + 64), (byte) => '\\' +
      byte.toString(8).padStart(3, '0')).join('');
    lines.push(`    "${part}"`);
  }
  return lines.join('\n') || '    ""';
}

function asset({ name, data }) {
  const type = types[name.slice(name.lastIndexOf('.'))];
  const packed = gzipSync(data, { level: 9 });
  return { name, type, packed };
}

function source(assets, page) {
  const entries = assets.map(({ name, type, packed }) =>
    `  {"${name}", "${type}", {\n${literal(packed)},\n    ${packed.length}}},\n`);
  return `// Written by build.mjs.
#include "server/assets_data.hpp"

namespace dovetail::server {
namespace {

constexpr Asset files[] = {
${entries.join('')}};

constexpr std::string_view page =
${literal(Buffer.from(page))};

}  // namespace

std::span<const Asset> embedded_assets() { return files; }

std::string_view embedded_page() { return page; }

}  // namespace dovetail::server
`;
}

const files = await bundle();
const find = (start, end) => files.find(({ name }) => name.startsWith(start) && name.endsWith(end));
const page = readFileSync(join(sources, 'index.html'), 'utf8')
  .replace('{{script}}', find('main-', '.js').name)
  .replace('{{style}}', find('main-', '.css').name)
  .replace('{{licenses}}', find('licenses-', '.txt').name);
const assets = files.map(asset);
mkdirSync(output, { recursive: true });
writeFileSync(join(output, 'assets_data.cpp'), source(assets, page));
const loaded = assets.filter(({ name }) => !name.endsWith('.txt'));
const total = loaded.reduce((sum, { packed }) => sum + packed.length, 0);
const list = assets.map(({ name, packed }) => `${name} ${packed.length}`).join(', ');
const hash = createHash('sha256').update(page).digest('hex').slice(0, 8);
console.log(`dashboard ${hash}: ${total} bytes compressed (${list})`);
