// Reads where nothing is: it ends by SIGSEGV, which nobody sent.

static volatile unsigned long nowhere;

int main(void) { return *(volatile int *)nowhere; }
