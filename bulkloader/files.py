"""Upload the files of events by Indico's own calls, whichever way the events were made.

Where they go is decided by FileRepository of indico.conf.
"""
import os
import tempfile

from MaKaC.conference import ConferenceHolder, LocalFile, Material
from indico.core.config import Config

TITLE = 'Files'             # of the material that holds them

# What a transaction holds at most. A server keeps others waiting while it takes one.
MOST_FILES = 100
MOST_BYTES = 16 << 20


def add_files(conference_id, files, contents):
    """Upload files to an event and its contributions in turn; commit nothing.

    Args:
        files: `specification.files.File`s.
        contents: a `Contents`.
    """
    event = ConferenceHolder().getById(conference_id)
    owners = event.getContributionList() or [event]
    materials = {}
    for each in files:
        place = each.number % len(owners)
        if place not in materials:
            materials[place] = Material()
            materials[place].setTitle(TITLE)
            owners[place].addMaterial(materials[place])
        _upload(materials[place], each, contents)


def _upload(material, wanted, contents):
    descriptor, path = tempfile.mkstemp('IndicoUpload', dir=Config.getInstance().getUploadedFilesTempDir())
    try:
        with os.fdopen(descriptor, 'wb') as target:
            for block in contents.blocks(wanted):
                target.write(block)
        resource = LocalFile()
        name = wanted.name.encode('ascii')
        resource.setName(name)
        resource.setFileName(name)
        resource.setFilePath(path)
        material.addResource(resource)
    finally:
        os.remove(path)


def files_of(event):
    """Return {name: LocalFile} of what `add_files` gave to an event."""
    return dict((resource.getFileName(), resource)
                for owner in [event] + event.getContributionList()
                for material in owner.getAllMaterialList() if material.getTitle() == TITLE
                for resource in material.getResourceList() if isinstance(resource, LocalFile))
