/* export.c: the results as JSON and as CSV.
 *
 * The JSON file holds one result per line, so that line tools can read it, too. In CSV a value that
 * was not measured is empty; in JSON it is absent.
 */
#include "device.h"

#include <string.h>

typedef struct file {
    FILE *stream; /* NULL: not asked for */
    const char *name;
} file_t;

static const perf_options_t *options;
static file_t json, csv;
static bool first_result;

static bool open_file(file_t *file, const char *name) {
    *file = (file_t){NULL, name};
    if (name == NULL) {
        return true;
    }
    file->stream = fopen(name, "w");
    if (file->stream == NULL) {
        fprintf(stderr, "heddle_perf: cannot write '%s'\n", name);
    }
    return file->stream != NULL;
}

static const char *boolean(bool value) {
    return value ? "true" : "false";
}

static void write_json_devices(FILE *to) {
    const perf_device_summary_t *s = perf_device_summary();
    if (s->devices != 0) {
        fprintf(to,
                "\"memory\": \"%s\", \"devices\": %u, \"device\": \"%s\", \"launch_us\": %.4f, "
                "\"copy_gbps\": %.4f, ",
                options->memory == UCC_MEMORY_TYPE_CUDA_MANAGED ? "cuda-managed" : "cuda",
                s->devices, s->name, s->launch * 1e6, s->copy_rate * 1e-9);
    }
}

static void write_json_header(FILE *to, double exchange_limit) {
    const perf_options_t *o = options;
    fprintf(to,
            "{\"processes\": %u, \"endpoints\": %u, \"threads\": %u, \"processors\": %u, \"api\": "
            "\"%s\", "
            "\"persistent\": %s, \"in_place\": %s, \"touch\": %s, \"back_to_back\": %s, "
            "\"datatype\": \"%s\", \"op\": \"%s\", \"clock\": \"%s\", ",
            o->processes, o->endpoints, o->workers, perf_processors(),
            o->stream                ? "stream"
            : o->api == PERF_API_UCC ? "ucc"
                                     : "heddle",
            boolean(o->persistent), boolean(o->in_place), boolean(o->touch),
            boolean(o->back_to_back), o->datatype->name, o->operation->name, perf_clock_name());
    if (o->alternate) {
        fprintf(to, "\"root\": \"alternate\", ");
    } else {
        fprintf(to, "\"root\": %u, ", o->root);
    }
    write_json_devices(to);
    fprintf(to, "\"exchange_us\": ");
    if (exchange_limit > 0.0) {
        fprintf(to, "%.4f", exchange_limit * 1e6);
    } else {
        fprintf(to, "null");
    }
    fprintf(to, ",\n\"results\": [\n");
}

bool perf_export_open(const perf_options_t *o, double exchange_limit) {
    options = o;
    first_result = true;
    if (!open_file(&json, o->json) || !open_file(&csv, o->csv)) {
        return false;
    }
    if (json.stream != NULL) {
        write_json_header(json.stream, exchange_limit);
    }
    if (csv.stream != NULL) {
        fputs(
            o->messages
                ? "collective,bytes,iterations,messages,most_messages,least_messages,sent_bytes,"
                  "most_sent_bytes,least_sent_bytes,credits,wrong\n"
            : o->overlap
                ? "collective,bytes,iterations,pure_us,compute_us,total_us,overlap_percent,wrong\n"
                : "collective,bytes,iterations,min_us,median_us,p99_us,mean_us,gbps,bus_gbps,"
                  "limit_us,ratio,formula,thread_bytes,exchange_us,ring_us,copy_us,read_us,launch_"
                  "us,"
                  "device_copy_us,message_us,"
                  "wrong\n",
            csv.stream);
    }
    return true;
}

static double bandwidth(const perf_result_t *r) {
    return r->median > 0.0 ? (double)r->data_bytes / r->median * 1e-9 : 0.0;
}

/* ------------------------------------------------------------------------------------------------
 * JSON
 * ---------------------------------------------------------------------------------------------- */

static void begin_json(const perf_coll_t *coll, uint64_t bytes, uint64_t iterations) {
    fprintf(json.stream, "%s{\"collective\": \"%s\", \"bytes\": %llu, \"iterations\": %llu, ",
            first_result ? "" : ",\n", coll->name, (unsigned long long)bytes,
            (unsigned long long)iterations);
    first_result = false;
}

static void end_json(bool verified, uint64_t wrong) {
    fprintf(json.stream, "\"verified\": %s, \"wrong\": %llu}", boolean(verified),
            (unsigned long long)wrong);
    fflush(json.stream); /* what there is stays if the run is cut off */
}

static void write_json_part(const char *name, double seconds) {
    if (seconds >= 0.0) {
        fprintf(json.stream, "\"%s\": %.4f, ", name, seconds * 1e6);
    }
}

static void write_json(const perf_result_t *r) {
    const perf_limits_t *l = &r->limits;
    begin_json(r->coll, r->bytes, r->iterations);
    fprintf(json.stream,
            "\"batch\": %llu, \"min_us\": %.4f, \"median_us\": %.4f, \"p99_us\": %.4f, "
            "\"mean_us\": %.4f, \"gbps\": %.4f, \"bus_gbps\": %.4f, ",
            (unsigned long long)r->batch, r->min * 1e6, r->median * 1e6, r->p99 * 1e6,
            r->mean * 1e6, bandwidth(r), bandwidth(r) * r->bus_factor);
    if (options->limits) {
        fprintf(json.stream,
                "\"limit_us\": %.4f, \"ratio\": %.4f, \"formula\": \"%s\", "
                "\"thread_bytes\": %llu, ",
                l->limit * 1e6, r->ratio, l->formula, (unsigned long long)l->bytes);
        write_json_part("exchange_us", l->exchange);
        write_json_part("ring_us", l->ring);
        write_json_part("copy_us", l->copy);
        write_json_part("read_us", l->read);
        write_json_part("launch_us", l->launch);
        write_json_part("device_copy_us", l->device);
        write_json_part("message_us", l->message);
    }
    end_json(r->verified, r->wrong);
}

/* ------------------------------------------------------------------------------------------------
 * CSV
 * ---------------------------------------------------------------------------------------------- */

static void write_csv_part(double seconds) {
    if (seconds >= 0.0) {
        fprintf(csv.stream, "%.4f,", seconds * 1e6);
    } else {
        fputc(',', csv.stream);
    }
}

static void write_csv(const perf_result_t *r) {
    const perf_limits_t *l = &r->limits;
    fprintf(csv.stream, "%s,%llu,%llu,%.4f,%.4f,%.4f,%.4f,%.4f,%.4f,", r->coll->name,
            (unsigned long long)r->bytes, (unsigned long long)r->iterations, r->min * 1e6,
            r->median * 1e6, r->p99 * 1e6, r->mean * 1e6, bandwidth(r),
            bandwidth(r) * r->bus_factor);
    if (options->limits) {
        fprintf(csv.stream, "%.4f,%.4f,%s,%llu,", l->limit * 1e6, r->ratio, l->formula,
                (unsigned long long)l->bytes);
        write_csv_part(l->exchange);
        write_csv_part(l->ring);
        write_csv_part(l->copy);
        write_csv_part(l->read);
        write_csv_part(l->launch);
        write_csv_part(l->device);
        write_csv_part(l->message);
    } else {
        fputs(",,,,,,,,,,,", csv.stream);
    }
    fprintf(csv.stream, "%llu\n", (unsigned long long)r->wrong);
}

/* ------------------------------------------------------------------------------------------------
 * Both
 * ---------------------------------------------------------------------------------------------- */

void perf_export_result(const perf_result_t *r) {
    if (json.stream != NULL) {
        write_json(r);
    }
    if (csv.stream != NULL) {
        write_csv(r);
    }
}

void perf_export_overlap(const perf_overlap_t *r) {
    if (json.stream != NULL) {
        begin_json(r->coll, r->bytes, r->iterations);
        fprintf(json.stream,
                "\"pure_us\": %.4f, \"compute_us\": %.4f, \"total_us\": %.4f, "
                "\"overlap_percent\": %.2f, ",
                r->pure * 1e6, r->compute * 1e6, r->total * 1e6, r->percent);
        end_json(r->verified, r->wrong);
    }
    if (csv.stream != NULL) {
        fprintf(csv.stream, "%s,%llu,%llu,%.4f,%.4f,%.4f,%.2f,%llu\n", r->coll->name,
                (unsigned long long)r->bytes, (unsigned long long)r->iterations, r->pure * 1e6,
                r->compute * 1e6, r->total * 1e6, r->percent, (unsigned long long)r->wrong);
    }
}

void perf_export_wire(const perf_result_t *r) {
    const perf_wire_t *w = &r->wire;
    if (json.stream != NULL) {
        begin_json(r->coll, r->bytes, r->iterations);
        fprintf(json.stream,
                "\"messages\": %.4f, \"most_messages\": %.4f, \"least_messages\": %.4f, "
                "\"sent_bytes\": %.2f, \"most_sent_bytes\": %.2f, \"least_sent_bytes\": %.2f, "
                "\"credits\": %.4f, ",
                w->messages, w->most_messages, w->least_messages, w->bytes, w->most_bytes,
                w->least_bytes, w->credits);
        end_json(r->verified, r->wrong);
    }
    if (csv.stream != NULL) {
        fprintf(csv.stream, "%s,%llu,%llu,%.4f,%.4f,%.4f,%.2f,%.2f,%.2f,%.4f,%llu\n", r->coll->name,
                (unsigned long long)r->bytes, (unsigned long long)r->iterations, w->messages,
                w->most_messages, w->least_messages, w->bytes, w->most_bytes, w->least_bytes,
                w->credits, (unsigned long long)r->wrong);
    }
}

static bool close_file(file_t *file) {
    if (file->stream == NULL) {
        return true;
    }
    bool failed = ferror(file->stream) != 0;
    failed = fclose(file->stream) != 0 || failed;
    file->stream = NULL;
    if (failed) {
        fprintf(stderr, "heddle_perf: '%s' could not be written in full\n", file->name);
    }
    return !failed;
}

bool perf_export_close(void) {
    if (json.stream != NULL) {
        fprintf(json.stream, "\n]}\n");
    }
    bool good = close_file(&json);
    return close_file(&csv) && good;
}
