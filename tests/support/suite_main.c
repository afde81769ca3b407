/* The main function of programs that only run their tests. */
#include "tests/support/suite.h"

int main(void)
{
    return suite_run(NULL, NULL);
}
