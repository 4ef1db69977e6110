// Charts over time, by uPlot, which is read when the first chart is shown.
import { html, useEffect, useRef, useState } from '../lib.js';
import { useStore } from '../hooks.js';
import { shownTheme } from '../theme.js';

let loading = null;
const library = () => (loading ??= import('uplot').then((module) => module.default));

const colour = (name) =>
  getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

const font = '11px system-ui, sans-serif';

// Steps of the axis for numbers without fractions.
const whole_steps = [1, 2, 5].flatMap((step) => [0, 1, 2, 3, 4, 5, 6, 7, 8].map((power) =>
  step * 10 ** power)).sort((a, b) => a - b);

function axes(format, whole) {
  const common = {
    stroke: colour('muted'), font, ticks: { show: false },
    grid: { stroke: colour('line'), width: 1 },
  };
  return [
    { ...common, grid: { show: false }, space: 70, size: 24 },
    { ...common, size: 52, space: 34, incrs: whole ? whole_steps : undefined,
      values: (_, values) => values.map((value) => (value === null ? '' : format(value))) },
  ];
}

// 24-hour times on the axis.
const stamps = [
  [86400, '{MMM} {DD}', null, null, null, null, null, null, 1],
  [60, '{HH}:{mm}', null, null, null, null, null, null, 1],
  [1, '{HH}:{mm}:{ss}', null, null, null, null, null, null, 1],
];

function options(box, { series, format, range, whole }, onMove) {
  const [time, value] = axes(format, whole);
  return {
    width: Math.max(box.clientWidth, 200),
    height: 168,
    padding: [8, 24, 0, 0],
    legend: { show: false },
    cursor: { points: { size: 6 }, drag: { x: false, y: false }, y: false },
    scales: { x: { time: true, range: (_, low, high) => range(low, high) },
              y: { range: (_, low, high) => [0, high > 0 ? high * 1.1 : 1] } },
    axes: [{ ...time, values: stamps }, value],
    series: [{}, ...series.map((each) => ({
      stroke: colour(each.colour), width: 1.5, points: { show: false }, spanGaps: false,
      fill: each.fill ? `${colour(each.colour)}22` : undefined,
    }))],
    hooks: { setCursor: [(plot) => onMove(plot.cursor.idx)] },
  };
}

const stamp = (seconds) => new Date(seconds * 1000).toLocaleTimeString([], { hour12: false });

// data: [seconds[], values[]…], one array of values for each of the series {label, colour, fill}.
// range(low, high) is the span of times that is shown; `whole`: its numbers have no fractions.
export function Chart(props) {
  const { title, series, data, format, note } = props;
  const box = useRef(null);
  const plot = useRef(null);
  const latest = useRef(props);
  latest.current = props;
  const [at, setAt] = useState(null);
  const theme = useStore(shownTheme);
  const last = data[0].length - 1;
  const index = at !== null && at !== undefined && at <= last ? at : null;
  useEffect(() => {
    let ended = false;
    let observer = null;
    library().then((UPlot) => {
      if (ended || !box.current) return;
      plot.current = new UPlot(options(box.current, { ...props,
        range: (low, high) => latest.current.range(low, high) }, setAt), latest.current.data,
        box.current);
      observer = new ResizeObserver(() =>
        plot.current?.setSize({ width: Math.max(box.current.clientWidth, 200), height: 168 }));
      observer.observe(box.current);
    });
    return () => {
      ended = true;
      observer?.disconnect();
      plot.current?.destroy();
      plot.current = null;
    };
  }, [theme]);
  useEffect(() => { plot.current?.setData(data); }, [data]);
  const shown = (value) => (value === undefined || value === null ? '–' : format(value));
  return html`<figure class="chart">
    <figcaption><span class="chart-title">${title}</span>
      <span class="chart-time muted">${index === null ? note : stamp(data[0][index])}</span>
    </figcaption>
    <div class="legend">${series.map((each, i) => html`<span><i class=${`ink-${each.colour}`}
      aria-hidden="true"></i>${each.label} <b>${shown(data[i + 1][index ?? last])}</b></span>`)}
    </div>
    <div class="chart-box" ref=${box} role="img" aria-label=${`Chart: ${title}`}></div>
  </figure>`;
}
