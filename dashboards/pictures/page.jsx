// A dashboard as Grafana lays it out: a grid of 24 columns, panels in Grafana's own frames.
import { createTheme, ThemeContext } from '@grafana/data';
import { GlobalStyles, Icon, PanelChrome } from '@grafana/ui';
import 'uplot/dist/uPlot.min.css';
import React from 'react';
import { createRoot } from 'react-dom/client';

import { below, CELL, GAP } from './layout.js';
import { KINDS } from './panels.jsx';

const { dashboard, answers, chosen, mode, range, width } = window.PICTURE;
const theme = createTheme({ colors: { mode } });

const x = (columns) => Math.round((columns * (width - GAP)) / 24) + GAP;
const place = ({ x: left, y: top, w, h }) => ({
  position: 'absolute',
  left: x(left),
  top: below(top),
  width: x(left + w) - x(left) - GAP,
  height: h * (CELL + GAP) - GAP,
});

function Panel({ panel }) {
  const at = place(panel.gridPos);
  const Kind = KINDS[panel.type];
  return (
    <div style={at}>
      <PanelChrome title={panel.title} width={at.width} height={at.height} description={panel.description}>
        {(innerWidth, innerHeight) => (
          <Kind
            panel={panel}
            answers={answers[panel.id] ?? {}}
            range={range}
            width={innerWidth}
            height={innerHeight}
          />
        )}
      </PanelChrome>
    </div>
  );
}

const clock = (time) => new Date(time * 1000).toISOString().slice(0, 16).replace('T', ' ');

function Variables() {
  const box = { background: theme.colors.background.secondary, padding: '6px 10px', borderRadius: 2 };
  return dashboard.templating.list.map((variable) => (
    <span key={variable.name} style={{ display: 'inline-flex', border: `1px solid ${theme.colors.border.medium}` }}>
      <span style={{ ...box, fontWeight: 500 }}>{variable.label}</span>
      <span style={{ padding: '6px 10px' }}>{variable.type === 'datasource' ? 'Prometheus' : chosen[variable.name] ?? 'All'}</span>
    </span>
  ));
}

function Page() {
  return (
    <ThemeContext.Provider value={theme}>
      <GlobalStyles />
      <div style={{ padding: `12px ${GAP}px`, display: 'flex', justifyContent: 'space-between' }}>
        <span style={{ fontSize: 16, fontWeight: 500 }}>{dashboard.title}</span>
        <span style={{ fontSize: 12 }}>
          <Icon name="clock-nine" /> {clock(range.from)} to {clock(range.to)} UTC
        </span>
      </div>
      <div style={{ padding: `0 ${GAP}px`, display: 'flex', gap: 12, fontSize: 12 }}>
        <Variables />
      </div>
      {dashboard.panels.map((panel) =>
        panel.type === 'row' ? (
          <div key={panel.id} style={{ ...place(panel.gridPos), paddingTop: 4, fontWeight: 500 }}>
            <Icon name="angle-down" /> {panel.title}
          </div>
        ) : (
          <Panel key={panel.id} panel={panel} />
        )
      )}
    </ThemeContext.Provider>
  );
}

createRoot(document.getElementById('page')).render(<Page />);
