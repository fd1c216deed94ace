// Grafana's grid, in pixels: the height of a line, what lies between panels, and what is above all of them.
export const [CELL, GAP, HEADER] = [30, 8, 84];

export const below = (lines) => lines * (CELL + GAP) + HEADER;
