/* Private to view: writes escaped text and SVG pictures for pages without scripts. */
#pragma once
#include "modules/modules.h"

/* Appends a text, escaped against markup. Ill-formed UTF-8 becomes U+FFFD; characters
 * that control a terminal or the direction of writing are left out. */
void html_text(pl_buf *out, const char *text);

/* One line of a chart. Its colour is the CSS class "s<colour>" (s0 to s7). */
typedef struct html_line {
    char name[64];
    int colour;
    bool weak;  /* draw the line thin and dashed, because it is only for comparison */
    double *xy; /* [n, 2] owned by the caller */
    size_t n;
} html_line;
/* Draws lines; x goes from 0 to 100 percent. `label` describes the picture for screen
 * readers. Draws nothing if no line has a finite value. */
void html_chart(pl_buf *out, const char *label, const html_line *lines, size_t n_lines);

/* Draws a grid of rows and columns. values [n_rows, n_columns]; NaN: an empty cell. */
typedef struct html_grid {
    const char *label;
    const char (*names)[PL_NAME_MAX]; /* [n_rows] */
    const double *values;
    size_t n_rows, n_columns;
} html_grid;
/* `range` gets the lowest value (drawn dark) and the highest value (drawn pale). If no
 * value is finite, both become infinite. If there are more than 24 rows, their names
 * are left out. */
void html_draw_grid(pl_buf *out, const html_grid *grid, double range[2]);
