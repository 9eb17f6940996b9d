/*
 * Multiplication of two 150 x 150 matrices of integers, the naive way: exokernel-sosp95 Table 9.
 */
#include "harness.h"

#define SIZE 150

static int left[SIZE][SIZE], right[SIZE][SIZE], product[SIZE][SIZE];

static void multiply(void)
{
	/* The compiler must believe that others read and write the matrices. */
	asm volatile("" ::"r"(left), "r"(right), "r"(product) : "memory");
	for (int row = 0; row < SIZE; row++)
		for (int column = 0; column < SIZE; column++) {
			int sum = 0;
			for (int index = 0; index < SIZE; index++)
				sum += left[row][index] * right[index][column];
			product[row][column] = sum;
		}
	asm volatile("" ::: "memory");
}

int main(void)
{
	begin();
	for (int row = 0; row < SIZE; row++)
		for (int column = 0; column < SIZE; column++) {
			left[row][column] = row + column;
			right[row][column] = row - column;
		}
	measure("matrix", 1, multiply);
	return 0;
}
