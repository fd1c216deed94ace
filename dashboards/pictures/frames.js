// Answers of Prometheus as Grafana's data frames.
import {
  createDataFrame,
  FieldType,
  getDisplayProcessor,
  ReducerID,
  reduceField,
  standardTransformers,
} from '@grafana/data';
import { firstValueFrom, of } from 'rxjs';

const named = (legend, labels) =>
  legend === '__auto'
    ? Object.entries(labels)
        .filter(([label]) => label !== '__name__')
        .map(([label, value]) => `${label}="${value}"`)
        .join(', ') || 'Value'
    : legend.replace(/{{\s*(\w+)\s*}}/g, (_, label) => labels[label] ?? '');

// The values of a field, as the panel wants them shown.
function finish(field, config, theme, index = 0) {
  field.config = { ...config, displayName: field.config?.displayName };
  field.state = { seriesIndex: index, displayName: field.config.displayName };
  field.display = getDisplayProcessor({ field, theme, timeZone: 'utc' });
  return field;
}

// What the panel says of a series: by its name in the legend, such as its colour, or by its values, such as that it has
// no name there.
function ofSeries(panel, field) {
  const said = panel.fieldConfig.overrides.filter(({ matcher: { id, options } }) =>
    id === 'byRegexp'
      ? new RegExp(options.slice(1, -1)).test(field.config.displayName)
      : id === 'byValue' && reduceField({ field, reducers: [options.reducer] })[options.reducer]
  );
  const config = { ...panel.fieldConfig.defaults, custom: { ...panel.fieldConfig.defaults.custom } };
  for (const { id, value } of said.flatMap(({ properties }) => properties)) {
    if (id.startsWith('custom.')) {
      config.custom[id.slice('custom.'.length)] = value;
    } else {
      config[id] = value;
    }
  }
  return config;
}

// One frame for each series, with its legend.
export function seriesFrames(panel, answers, theme) {
  let index = 0;
  return panel.targets.flatMap((target) =>
    (answers[target.refId] ?? []).map((series) => {
      const frame = createDataFrame({
        refId: target.refId,
        fields: [
          { name: 'Time', type: FieldType.time, values: series.points.map(([time]) => time * 1000) },
          {
            name: 'Value',
            type: FieldType.number,
            labels: series.labels,
            config: { displayName: named(target.legendFormat, series.labels) },
            values: series.points.map(([, value]) => value),
          },
        ],
      });
      finish(frame.fields[0], {}, theme);
      finish(frame.fields[1], ofSeries(panel, frame.fields[1]), theme, index++);
      return frame;
    })
  );
}

// The last value of each series, as text and colour.
export function lastValues(panel, answers, theme) {
  return seriesFrames(panel, answers, theme).map((frame) => {
    const field = frame.fields[1];
    const last = reduceField({ field, reducers: [ReducerID.lastNotNull] })[ReducerID.lastNotNull];
    return { ...field.display(last), title: field.config.displayName, field, time: frame.fields[0] };
  });
}

// A table's frame, after the transformations that Grafana itself makes.
export async function tableFrame(panel, answers, theme) {
  const several = panel.targets.length > 1;
  const frames = panel.targets.map((target) => {
    const series = answers[target.refId] ?? [];
    const labels = [...new Set(series.flatMap((one) => Object.keys(one.labels)))].filter(
      (label) => label !== '__name__'
    );
    return createDataFrame({
      refId: target.refId,
      fields: [
        { name: 'Time', type: FieldType.time, values: series.map((one) => one.points[0][0] * 1000) },
        ...labels.map((label) => ({
          name: label,
          type: FieldType.string,
          values: series.map((one) => one.labels[label] ?? ''),
        })),
        {
          name: several ? `Value #${target.refId}` : 'Value',
          type: FieldType.number,
          values: series.map((one) => one.points[0][1]),
        },
      ],
    });
  });
  const transformers = {
    merge: standardTransformers.mergeTransformer,
    organize: standardTransformers.organizeFieldsTransformer,
  };
  const steps = panel.transformations.map(({ id, options }) =>
    transformers[id].operator(options, { interpolate: (text) => text })
  );
  const [frame] = await firstValueFrom(of(frames).pipe(...steps));
  for (const field of frame.fields) {
    const shown = field.config.displayName ?? field.name;
    const config = structuredClone(panel.fieldConfig.defaults);
    const override = panel.fieldConfig.overrides.find((one) => one.matcher.options === shown);
    for (const { id, value } of override?.properties ?? []) {
      if (id.startsWith('custom.')) {
        config.custom[id.slice('custom.'.length)] = value;
      } else if (id !== 'links') {
        config[id] = value;
      }
    }
    config.custom.filterable = false;
    finish(field, config, theme);
  }
  return frame;
}

// A histogram's columns: for each bucket that is not empty its bound and its counts over time.
export function heatmapRows(panel, answers) {
  const series = Object.values(answers)
    .flat()
    .map((one) => ({ bound: Number(one.labels.le.replace('+Inf', 'Infinity')), points: one.points }))
    .sort((a, b) => a.bound - b.bound);
  const below = new Map();
  const rows = series.map(({ bound, points }) => ({
    bound,
    counts: points.map(([time, value]) => {
      const count = Math.max(0, (value ?? 0) - (below.get(time) ?? 0));
      below.set(time, value ?? 0);
      return [time, count];
    }),
  }));
  const used = rows.map((row) => row.counts.some(([, count]) => count > 0));
  return rows.slice(Math.max(0, used.indexOf(true) - 1), used.lastIndexOf(true) + 2);
}
