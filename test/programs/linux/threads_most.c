// More threads that sleep at once than one CPU has time slices (1,024), in a process that may run on two CPUs.
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>

enum { THREADS = 1500 };
static sem_t go;
static pthread_t threads[THREADS];

static void *wait_for_all(void *unused) {
	sem_wait(&go);
	return unused;
}

int main(void) {
	pthread_attr_t small;
	int made = 0, trouble = 0, joined = 0;
	sem_init(&go, 0, 0);
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 16384);
	while (made < THREADS && (trouble = pthread_create(&threads[made], &small, wait_for_all, NULL)) == 0) made++;
	printf("%d threads, %s\n", made, trouble ? strerror(trouble) : "no error");
	for (int thread = 0; thread < made; thread++) sem_post(&go);
	while (joined < made && pthread_join(threads[joined], NULL) == 0) joined++;
	printf("%d joined\n", joined);
	return made != THREADS;
}
