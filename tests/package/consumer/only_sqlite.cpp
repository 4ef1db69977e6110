#include <dovetail/sqlite.hpp>
#include <dovetail/transaction.hpp>

#include <iostream>
#include <stdexcept>

int main() {
  try {
    (void)dovetail::Transaction::borrow(static_cast<sqlite3*>(nullptr));
  } catch (const std::invalid_argument& error) {
    std::cout << error.what() << "\n";
  }
}
