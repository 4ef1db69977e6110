#include "dovetail/ids.hpp"

void use(dovetail::OutboxMessageId);

bool mix() {
  const auto message = dovetail::OutboxMessageId::generate();
  const auto item = dovetail::OutboxWorkItemId::generate();
  use(message);
#ifdef MISTAKE_convert
  use(item);
#endif
#ifdef MISTAKE_compare
  return message == item;
#endif
#ifdef MISTAKE_construct_from_uuid
  use(dovetail::Uuid::v7());
#endif
  return message.uuid() == item.uuid();
}
