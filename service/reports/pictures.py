"""What of a report stands on matplotlib; imported only when a picture is asked for."""

from service.reports.chat_picture import png_of
from service.reports.document import pdf_of

__all__ = ["pdf_of", "png_of"]
