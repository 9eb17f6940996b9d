// A program in C, compiled by the host's compiler, and the same on both sides.
// A process that holds a robust shared mutex executes another program: the next owner learns that the last one is gone.
#define _GNU_SOURCE
#include <stdio.h>
#include <pthread.h>
#include <unistd.h>
#include <time.h>
#include <sys/mman.h>
#include <sys/wait.h>
int main(int c,char**v){ if(c>1) return 0; pthread_mutex_t*m=mmap(0,4096,3,MAP_SHARED|MAP_ANONYMOUS,-1,0); pthread_mutexattr_t a; pthread_mutexattr_init(&a); pthread_mutexattr_setpshared(&a,1); pthread_mutexattr_setrobust(&a,PTHREAD_MUTEX_ROBUST); pthread_mutex_init(m,&a); pid_t p=fork(); if(!p){ pthread_mutex_lock(m); execl("/proc/self/exe","x","y",(char*)0); _exit(1);} waitpid(p,0,0); struct timespec t; clock_gettime(CLOCK_REALTIME,&t); t.tv_sec++; printf("after exec %d\n",pthread_mutex_timedlock(m,&t)); }
