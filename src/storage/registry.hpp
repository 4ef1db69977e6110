// The stores of one database, found by their types, and its queues, found by their names.
//
// An engine makes its stores in the registry when it is constructed (stores.cpp of its folder);
// they live as long as the registry. Lookups read a short list and take no lock: components look
// their stores up once and keep the references.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <typeindex>
#include <utility>
#include <vector>

#include "dovetail/error.hpp"
#include "storage/queue_store.hpp"

namespace dovetail::storage {

class Registry {
 public:
  /// Makes the store `Made`, which is found by its interface `Store`.
  template <class Store, class Made, class... Arguments>
  Made& add(Arguments&&... arguments) {
    auto& made = keep<Made>(std::forward<Arguments>(arguments)...);
    stores_.emplace_back(std::type_index{typeid(Store)}, static_cast<Store*>(&made));
    return made;
  }

  /// Makes the queue `Made`, which is found by its name.
  template <class Made, class... Arguments>
  Made& add_queue(std::string_view name, Arguments&&... arguments) {
    auto& made = keep<Made>(std::forward<Arguments>(arguments)...);
    queues_.emplace_back(std::string{name}, made.roles());
    return made;
  }

  /// Throws InvalidOperation when the engine has no such store.
  template <class Store>
  [[nodiscard]] Store& store() const {
    for (const auto& [type, store] : stores_) {
      if (type == std::type_index{typeid(Store)}) return *static_cast<Store*>(store);
    }
    throw InvalidOperation(std::string{"this database has no "} + typeid(Store).name());
  }

  /// Throws InvalidOperation when the engine has no queue of this name.
  [[nodiscard]] const QueueStore& queue(std::string_view name) const {
    for (const auto& [known, queue] : queues_) {
      if (known == name) return queue;
    }
    throw InvalidOperation("this database has no queue " + std::string{name});
  }

 private:
  template <class Made, class... Arguments>
  Made& keep(Arguments&&... arguments) {
    auto made = std::make_shared<Made>(std::forward<Arguments>(arguments)...);
    kept_.push_back(made);
    return *made;
  }

  std::vector<std::shared_ptr<void>> kept_;
  std::vector<std::pair<std::type_index, void*>> stores_;
  std::vector<std::pair<std::string, QueueStore>> queues_;
};

}  // namespace dovetail::storage
