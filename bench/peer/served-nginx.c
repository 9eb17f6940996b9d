/* Debian's nginx at port 80 of a card. */
#include "checked.h"

#include "card.h"
#include "nginx.h"

int main(void)
{
	bring_card_up();
	run_nginx("80", "index.html");
}
