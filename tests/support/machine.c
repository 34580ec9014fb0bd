/* machine.c: see machine.h. */
#include "machine.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static char text[1 << 16];
static size_t used;
static unsigned objects;

static void add(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void add(const char *format, ...) {
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text + used, sizeof(text) - used, format, args);
    va_end(args);
    if (n < 0 || (size_t)n >= sizeof(text) - used) {
        abort();
    }
    used += (size_t)n;
}

/* Opens an object with these processors and nodes. */
static void open_object(const char *type, unsigned number, unsigned long cpus,
                        unsigned long nodes) {
    add("<object type=\"%s\" os_index=\"%u\" gp_index=\"%u\" ", type, number, ++objects);
    add("cpuset=\"0x%08lx\" complete_cpuset=\"0x%08lx\" allowed_cpuset=\"0x%08lx\" ", cpus, cpus,
        cpus);
    add("nodeset=\"0x%08lx\" complete_nodeset=\"0x%08lx\" allowed_nodeset=\"0x%08lx\">\n", nodes,
        nodes, nodes);
}

static void add_package(unsigned p, unsigned cores, const char *bus) {
    unsigned long cpus = ((1ul << cores) - 1) << p * cores, node = 1ul << p;
    open_object("Package", p, cpus, node);
    open_object("NUMANode", p, cpus, node);
    add("</object>\n");
    for (unsigned c = p * cores; c < (p + 1) * cores; c++) {
        open_object("Core", c, 1ul << c, node);
        open_object("PU", c, 1ul << c, node);
        add("</object></object>\n");
    }
    for (; *bus; bus++) {
        add("<object type=\"PCIDev\" gp_index=\"%u\" pci_busid=\"0000:%02x:00.0\" "
            "pci_type=\"0302 [10de:2330] [10de:16c1] a1\" pci_link_speed=\"0.0\"/>\n",
            ++objects, (unsigned)(*bus - '0'));
    }
    add("</object>\n");
}

const char *machine_describe(const char *const *bus, unsigned packages, unsigned cores) {
    if (packages * cores >= 32) {
        abort();
    }
    used = objects = 0;
    add("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n"
        "<topology version=\"2.0\">\n");
    open_object("Machine", 0, (1ul << packages * cores) - 1, (1ul << packages) - 1);
    for (unsigned p = 0; p < packages; p++) {
        add_package(p, cores, bus[p]);
    }
    add("</object></topology>\n");
    return text;
}
