/* The program that programs start when only starting is to be measured. */
int main(void)
{
	return 0;
}
