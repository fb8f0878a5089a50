// The header in C++, beside C++ names.

#include <pando.h>

int main() {
  pando_db *db = nullptr;
  pando_error *error = nullptr;
  if (pando_in_memory(nullptr, &db, &error) != PANDO_OK) return 1;
  pando_table *table = nullptr;
  if (pando_table_ensure(db, "t", PANDO_DEFAULT, PANDO_DEFAULT, 0, &table, &error) != PANDO_OK) return 1;
  if (pando_db_put(db, table, "k", 1, "v", 1, &error) != PANDO_OK) return 1;
  pando_table_free(table);
  pando_db_free(db);
  return 0;
}
