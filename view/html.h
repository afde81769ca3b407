/* Private to view: pieces of a page without scripts: escaped text and pictures as SVG.
 */
#ifndef PL_VIEW_HTML_H
#define PL_VIEW_HTML_H
#include "modules/modules.h"

/* Appends text that cannot become markup; ill-formed UTF-8 becomes U+FFFD, and
 * characters that control a terminal or the direction of writing are left out. */
void html_text(pl_buf *out, const char *text);

/* One line of a chart. Its colour is the CSS class "s<colour>" (s0 to s7). */
typedef struct html_line {
    char name[64];
    int colour;
    bool weak;  /* thin and dashed: for comparison */
    double *xy; /* [n, 2] owned by the caller */
    size_t n;
} html_line;
/* Draws lines over x from 0 to 100 percent. `label` describes the picture for screen
 * readers. Draws nothing if there is no point. */
void html_chart(pl_buf *out, const char *label, const html_line *lines, size_t n_lines);

/* Draws a grid of rows and columns. values [n_rows, n_columns]; NaN: an empty cell. */
typedef struct html_grid {
    const char *label;
    const char (*names)[PL_NAME_MAX]; /* [n_rows] */
    int name_width;                   /* in pixels; 0: 84. Many rows have no names. */
    const double *values;
    size_t n_rows, n_columns;
} html_grid;
/* `range` gets the lowest value (drawn dark) and the highest (drawn pale); both are not
 * finite if there is no value. */
void html_draw_grid(pl_buf *out, const html_grid *grid, double range[2]);

/* Draws a bar per name, with its value: a share from 0 to 1. */
void html_bars(pl_buf *out, const char *label, const char (*names)[PL_NAME_MAX],
               const double *shares, size_t n);
/* Appends a picture that a function above made, with a title, as a complete SVG
 * file. */
void html_alone(pl_buf *picture, const char *title, pl_buf *out);

#endif
