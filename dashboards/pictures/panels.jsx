// One component for each type of panel. Grafana exports all of these but the heatmap, which is drawn here.
import {
  dateTime,
  formattedValueToString,
  getValueFormat,
  ReducerID,
  reduceField,
  VizOrientation,
} from '@grafana/data';
import { BigValue, Table, TimeSeries, useTheme2, VizRepeater } from '@grafana/ui';
import React, { useEffect, useState } from 'react';

import { heatmapRows, lastValues, seriesFrames, tableFrame } from './frames.js';

const NoData = ({ panel }) => <div style={{ margin: 'auto', opacity: 0.6 }}>{panel.fieldConfig.defaults.noValue}</div>;

function Series({ panel, answers, range, width, height }) {
  const theme = useTheme2();
  const frames = seriesFrames(panel, answers, theme);
  if (!frames.length) {
    return <NoData panel={panel} />;
  }
  const time = { from: dateTime(range.from * 1000), to: dateTime(range.to * 1000) };
  return (
    <TimeSeries
      frames={frames}
      width={width}
      height={height}
      timeRange={{ ...time, raw: time }}
      timeZone="utc"
      legend={panel.options.legend}
    />
  );
}

// Grafana's sparkline wants to know where its values lie.
function withRange(field) {
  const { [ReducerID.min]: lowest, max } = reduceField({ field, reducers: [ReducerID.min, ReducerID.max] });
  const min = field.config.min ?? lowest;
  return { ...field, state: { ...field.state, range: { min, max, delta: max - min } } };
}

function Stat({ panel, answers, range, width, height }) {
  const theme = useTheme2();
  const values = lastValues(panel, answers, theme);
  if (!values.length) {
    return <NoData panel={panel} />;
  }
  const time = { from: dateTime(range.from * 1000), to: dateTime(range.to * 1000) };
  const line = ({ field, time: x }) =>
    panel.options.graphMode === 'area' ? { x, y: withRange(field), timeRange: { ...time, raw: time } } : undefined;
  return (
    <VizRepeater
      getValues={() => values}
      source={values}
      renderCounter={1}
      width={width}
      height={height}
      orientation={VizOrientation.Auto}
      renderValue={({ value, ...place }) => (
        <BigValue
          {...place}
          alignmentFactors={undefined}
          value={values.length > 1 || panel.options.textMode.endsWith('name') ? value : { ...value, title: '' }}
          theme={theme}
          colorMode={panel.options.colorMode}
          graphMode={panel.options.graphMode}
          sparkline={line(value)}
          justifyMode="auto"
          textMode={panel.options.textMode}
        />
      )}
    />
  );
}

function Rows({ panel, answers, width, height }) {
  const theme = useTheme2();
  const [frame, setFrame] = useState(null);
  useEffect(() => {
    tableFrame(panel, answers, theme).then(setFrame);
  }, []);
  if (!frame) {
    return null;
  }
  if (!frame.length) {
    return <NoData panel={panel} />;
  }
  return (
    <Table data={frame} width={width} height={height} initialSortBy={panel.options.sortBy} cellHeight="sm" />
  );
}

function Heatmap({ panel, answers, range, width, height }) {
  const theme = useTheme2();
  const rows = heatmapRows(panel, answers);
  if (!rows.length) {
    return <NoData panel={panel} />;
  }
  const [left, bottom, top] = [84, 22, 8];
  const most = Math.max(...rows.flatMap((row) => row.counts.map(([, count]) => count)));
  const times = rows[0].counts.map(([time]) => time);
  const cellWidth = (width - left) / times.length;
  const cellHeight = (height - bottom - top) / rows.length;
  const unit = getValueFormat(panel.options.yAxis.unit);
  const bound = (value) => (Number.isFinite(value) ? formattedValueToString(unit(value)) : '+Inf');
  // As Grafana does: the color that stands out from the background is that of many.
  const lightness = (share) => (theme.isDark ? 24 + 54 * share : 90 - 52 * share);
  const everyRow = Math.ceil(18 / cellHeight);
  const text = { fill: theme.colors.text.primary, fontSize: 12, fontFamily: theme.typography.fontFamily };
  const clock = (time) => new Date(time * 1000).toISOString().slice(11, 16);
  return (
    <svg width={width} height={height}>
      {rows.map((row, index) => {
        const y = top + (rows.length - 1 - index) * cellHeight;
        return (
          <g key={row.bound}>
            {index % everyRow === 0 && (
              <text x={left - 8} y={y + 4} textAnchor="end" {...text}>
                {bound(row.bound)}
              </text>
            )}
            {row.counts.map(([time, count], at) => (
              <rect
                key={time}
                x={left + at * cellWidth}
                y={y}
                width={cellWidth + 0.3}
                height={cellHeight + 0.3}
                fill={count > 0 ? `hsl(24, 90%, ${lightness(Math.sqrt(count / most))}%)` : 'transparent'}
              />
            ))}
          </g>
        );
      })}
      {[0.05, 0.2, 0.35, 0.5, 0.65, 0.8, 0.95].map((share) => {
        const time = times[Math.floor(share * times.length)];
        return (
          <text key={share} x={left + share * (width - left)} y={height - 5} textAnchor="middle" {...text}>
            {clock(time)}
          </text>
        );
      })}
    </svg>
  );
}

export const KINDS = { timeseries: Series, stat: Stat, table: Rows, heatmap: Heatmap };
