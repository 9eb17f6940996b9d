/*
 * The calls of calls.c by a program that is linked with ExOS (xok-exos-sosp97 section 7.1). It runs in ExOS alone.
 */
#define LINKED
#include "calls.c"
