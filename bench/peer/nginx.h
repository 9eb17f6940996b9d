/* Debian's nginx, which serves two documents: one of 1 KB, and large.html of 64 KiB. */
#include <fcntl.h>
#include <sys/stat.h>

#define DOCUMENT 1024

static void write_file(const char *name, const char *text)
{
	int file = (int)checked(open(name, O_WRONLY | O_CREAT | O_TRUNC, 0644), name);
	checked(write(file, text, strlen(text)), name);
	close(file);
}

/* Becomes nginx, at this address and port. As Debian configures it, but for one worker, which is the first process, and
 * no log. */
static void run_nginx(const char *listen, const char *name)
{
	static char document[DOCUMENT + 1], large[64 * DOCUMENT + 1], path[64], configuration[1024];
	memset(document, 'd', DOCUMENT);
	memset(large, 'd', 64 * DOCUMENT);
	mkdir("/etc", 0755);
	mkdir("/tmp", 0777);
	mkdir("/tmp/nginx", 0755);
	write_file("/etc/passwd", "root:x:0:0::/:/bin/sh\n");
	write_file("/etc/group", "root:x:0:\n");
	snprintf(path, sizeof path, "/tmp/nginx/%s", name);
	write_file(path, document);
	write_file("/tmp/nginx/large.html", large);
	snprintf(configuration, sizeof configuration,
		 "daemon off; master_process off; user root root; error_log stderr crit; pid pid;\n"
		 "events { worker_connections 64; }\n"
		 "http { access_log off; sendfile on; tcp_nopush on; keepalive_requests 1000000;\n"
		 " client_body_temp_path a; proxy_temp_path b; fastcgi_temp_path c; uwsgi_temp_path d; scgi_temp_path e;\n"
		 " server { listen %s; root /tmp/nginx; default_type text/plain; } }\n",
		 listen);
	write_file("/tmp/nginx/configuration", configuration);
	execl("/usr/sbin/nginx", "nginx", "-p", "/tmp/nginx/", "-e", "stderr", "-c", "configuration", (char *)NULL);
	checked(-1, "nginx");
}
