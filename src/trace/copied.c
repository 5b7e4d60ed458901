#include "trace/copied.h"

#include <stddef.h>
#include <string.h>

enum aorta_copied aorta_copied_how(const char *name) {
    static const struct {
        const char *word;
        enum aorta_copied copied;
    } words[] = {{"PtoP", AORTA_COPIED_BETWEEN}, /* first: its details are "Device -> Device" */
                 {"P2P", AORTA_COPIED_BETWEEN},
                 {"PeerToPeer", AORTA_COPIED_BETWEEN},
                 {"peer to peer", AORTA_COPIED_BETWEEN},
                 {"HtoD", AORTA_COPIED_TO_DEVICE},
                 {"HOST_TO_DEVICE", AORTA_COPIED_TO_DEVICE},
                 {"HostToDevice", AORTA_COPIED_TO_DEVICE},
                 {"DtoH", AORTA_COPIED_TO_HOST},
                 {"DEVICE_TO_HOST", AORTA_COPIED_TO_HOST},
                 {"DeviceToHost", AORTA_COPIED_TO_HOST},
                 {"DtoD", AORTA_COPIED_WITHIN},
                 {"D2D", AORTA_COPIED_WITHIN},
                 {"device to device", AORTA_COPIED_WITHIN},
                 {"DEVICE_TO_DEVICE", AORTA_COPIED_WITHIN},
                 {"DeviceToDevice", AORTA_COPIED_WITHIN},
                 {"Device -> Device", AORTA_COPIED_WITHIN},
                 {"Device -> Host", AORTA_COPIED_TO_HOST},
                 {"Device -> Pinned", AORTA_COPIED_TO_HOST},
                 {"Device -> Pageable", AORTA_COPIED_TO_HOST},
                 {"Host -> Device", AORTA_COPIED_TO_DEVICE},
                 {"Pinned -> Device", AORTA_COPIED_TO_DEVICE},
                 {"Pageable -> Device", AORTA_COPIED_TO_DEVICE}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strstr(name, words[i].word)) return words[i].copied;
    return AORTA_COPIED_UNKNOWN;
}
