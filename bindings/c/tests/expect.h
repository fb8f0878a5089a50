// What the test programs have in common.

#ifndef EXPECT_H
#define EXPECT_H

#include <pando.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static pando_error *error;

// The code of the last call, whose error was looked at.
static inline void expect(pando_code wanted, pando_code got, const char *call, int line) {
  int has_error = wanted != PANDO_OK && wanted != PANDO_ABSENT;
  int is_right = got == wanted && (error != NULL) == has_error;
  if (is_right && has_error)
    is_right = pando_error_code(error) == got && strlen(pando_error_message(error)) > 8;
  if (!is_right) {
    fprintf(stderr, "line %d: %s\n  %s instead of %s: %s\n", line, call, pando_code_name(got),
            pando_code_name(wanted), pando_error_message(error));
    exit(1);
  }
  pando_error_free(error);
  error = NULL;
}

#define EXPECT(wanted, call) expect(wanted, call, #call, __LINE__)
#define OK(call) EXPECT(PANDO_OK, call)
#define CHECK(condition)                                            \
  do {                                                              \
    if (!(condition)) {                                             \
      fprintf(stderr, "line %d: not so: %s\n", __LINE__, #condition); \
      exit(1);                                                      \
    }                                                               \
  } while (0)

// Lets other threads run. Valgrind runs one thread at a time, and changes it at calls of the system.
static inline void pause_briefly(void) {
  nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

// Bytes are these.
static inline int is(const void *data, size_t len, const char *text) {
  return len == strlen(text) && (len == 0 || memcmp(data, text, len) == 0);
}

// Bytes that are lent have an address, even if there are none. Go takes an address below 4096 for damage.
static inline int is_address(const void *data) { return (uintptr_t)data >= 4096; }

#endif
