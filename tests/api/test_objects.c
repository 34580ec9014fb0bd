/* test_objects.c: one object of a name in the process, whoever asks first. */
#include <criterion/criterion.h>
#include <heddle/heddle.h>
#include <pthread.h>
#include <stdlib.h>

TestSuite(objects, .timeout = 30);

static _Atomic int made;

static void *make(void) {
    made++;
    return malloc(1);
}

static void *nothing(void) {
    made++;
    return NULL;
}

static void *ask(void *arg) {
    (void)arg;
    return heddle_process_object("one for all", make);
}

Test(objects, many_threads_get_the_same_one) {
    enum { THREADS = 8 };
    pthread_t thread[THREADS];
    void *first = ask(NULL), *object;
    for (int i = 0; i < THREADS; i++) {
        cr_assert_eq(pthread_create(&thread[i], NULL, ask, NULL), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(thread[i], &object);
        cr_assert_eq(object, first);
    }
    cr_assert_not_null(first);
    cr_assert_eq(made, 1);
    cr_assert_neq(heddle_process_object("another", make), first);
}

Test(objects, one_that_could_not_be_made_is_tried_again) {
    cr_assert_null(heddle_process_object("late", nothing));
    cr_assert_not_null(heddle_process_object("late", make));
    cr_assert_eq(made, 2);
}

Test(objects, one_without_a_name_or_a_maker_is_refused) {
    cr_assert_null(heddle_process_object(NULL, make));
    cr_assert_null(heddle_process_object("unmade", NULL));
    cr_assert_eq(made, 0);
}
