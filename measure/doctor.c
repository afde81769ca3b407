/* Collects the findings of all checks (doctor.h). */
#include "measure/doctor_internal.h"

#include <stdarg.h>
#include <stdio.h>

void doctor_say(doctor *d, health how, const char *what, const char *remedy,
                const char *format, ...)
{
    char text[1200];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    d->n[how]++;
    d->tell(d->context, how, what, text, how == HEALTH_OK ? "" : remedy);
}

void doctor_examine(doctor *d, const char *dir, const char *hub, const char *key)
{
    doctor_machine(d);
    if (!hub) {
        doctor_run(d, dir);
        return;
    }
    doctor_gpu(d, NULL, false);
    doctor_hub(d, hub, key);
}
