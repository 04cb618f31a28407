"""Topics that an MQTT 5 client has given numbers to (section 3.3.2.3.4). Pure.

For example, a client publishes to ``plant/line-1/temperature`` with alias 3, and from then on to
the empty topic with alias 3.
"""

from __future__ import annotations

from dataclasses import replace

from ges.errors import MqttError
from ges.mqtt.codec import wrong
from ges.mqtt.packets import Publish
from ges.mqtt.properties import Property
from ges.mqtt.reasons import Reason

TOPIC_ALIASES = 32  #: that one client may have


class Aliases:
    """The numbers of one client."""

    def __init__(self) -> None:
        self._topics: dict[int, str] = {}

    def resolved(self, message: Publish) -> Publish:
        """Return a message with the topic that it is for, and note what its alias stands for.

        Raises:
            MqttError: it has no topic, or an alias that is none.
        """
        alias = message.properties.values.get(Property.TOPIC_ALIAS)
        if alias is None:
            if not message.topic:
                raise MqttError(Reason.TOPIC_NAME, "a message without a topic")
            return message
        assert isinstance(alias, int)
        if not 0 < alias <= TOPIC_ALIASES:
            raise MqttError(
                Reason.TOPIC_ALIAS, f"topic alias {alias}; 1 to {TOPIC_ALIASES} are allowed"
            )
        if message.topic:
            self._topics[alias] = message.topic
            return message
        topic = self._topics.get(alias)
        if topic is None:
            raise wrong(f"topic alias {alias} stands for nothing")
        return replace(message, topic=topic)
