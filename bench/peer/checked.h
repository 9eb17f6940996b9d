/* What cannot fail in a system that works: where it does, the program says so and ends. */
#pragma once
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

__attribute__((unused)) static long checked(long result, const char *what)
{
	if (result >= 0)
		return result;
	printf("bench: failed %s: %s\n", what, strerror(errno));
	fflush(stdout);
	_exit(1);
}
